"""What limits pre-training on many devices, and the making of data on many machines."""
