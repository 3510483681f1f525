"""Tensor files: reading and writing checkpoints, ours and others'."""
