"""Differences from arrays that the original implementation computed, one module for each part.

Every function takes the folder with those arrays, where needed a tokenizer with the published vocabulary,
and returns `Difference`s. The command of this folder prints them all; the tests of each part assert them
one by one.
"""
