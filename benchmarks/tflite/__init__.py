"""A classifier on LiteRT, what phones run, beside its SavedModel."""
