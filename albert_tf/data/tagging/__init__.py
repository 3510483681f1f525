"""From CoNLL files and JSON lines to tagged texts, and from these to windows of tokens with labels."""
