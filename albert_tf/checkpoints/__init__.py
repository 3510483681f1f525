"""Reads and writes the tensor files of checkpoints, ours and others'."""
