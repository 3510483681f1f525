"""What two programs learn from the same books in the same time: ours and Hugging Face's."""
