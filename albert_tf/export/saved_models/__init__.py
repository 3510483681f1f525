"""The SavedModels: ids to predictions, texts to predictions, the reusable encoder."""
