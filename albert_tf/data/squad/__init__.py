"""From SQuAD files to questions, from questions to windows, and windows as records."""
