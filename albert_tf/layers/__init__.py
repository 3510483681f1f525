"""The layers of ALBERT, in `keras.ops` alone."""
