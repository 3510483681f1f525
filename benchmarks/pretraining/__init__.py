"""Speed and memory of a pre-training step, next to other implementations and the products alone."""
