"""Pre-trains ALBERT; the same as the command albert-pretrain."""

from albert_tf import commands

if __name__ == "__main__":
    commands.pretrain()
