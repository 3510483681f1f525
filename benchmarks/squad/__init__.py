"""How fast SQuAD becomes windows."""
