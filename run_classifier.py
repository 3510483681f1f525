"""Fine-tunes ALBERT on texts; the same as the command albert-classify."""

from albert_tf import commands

if __name__ == "__main__":
    commands.classify()
