"""Converts a checkpoint; the same as the command albert-convert."""

from albert_tf import commands

if __name__ == "__main__":
    commands.convert()
