"""Speed and memory of a pre-training step, beside other implementations and the products alone."""
