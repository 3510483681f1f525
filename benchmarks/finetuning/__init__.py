"""Speed of fine-tuning and prediction on real texts, beside padding and another implementation."""
