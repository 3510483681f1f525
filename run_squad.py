"""Fine-tunes ALBERT to answer questions; the same as the command albert-squad."""

from albert_tf import commands

if __name__ == "__main__":
    commands.answer_questions()
