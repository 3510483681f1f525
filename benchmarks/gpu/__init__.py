"""Training and serving on a GPU: whether the numbers are right, and how fast, next to other libraries."""
