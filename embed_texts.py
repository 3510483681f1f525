"""Embeds the lines of a file; the same as the command albert-embed."""

from albert_tf import commands

if __name__ == "__main__":
    commands.embed()
