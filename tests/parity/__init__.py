"""Differences from arrays that the original implementation computed, one module for each part.

Each function compares one part and returns `Difference`s. `PARTS` of `tests.parity.parts` lists them: the
tests assert them one by one, and `python -m tests.parity` prints them all.
"""
