"""How fast SQuAD becomes windows, and windows become answers."""
