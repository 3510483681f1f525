"""Speed of fine-tuning and prediction on real texts, next to padding and another implementation."""
