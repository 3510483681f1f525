"""SQuAD files to questions, questions to windows, windows to records and back."""
