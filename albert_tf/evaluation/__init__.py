"""Metrics of predictions, and answers from the outputs of question-answering models."""
