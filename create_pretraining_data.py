"""Makes pre-training data; the same as the command albert-create-pretraining-data."""

from albert_tf import commands

if __name__ == "__main__":
    commands.create_pretraining_data()
