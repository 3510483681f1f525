"""Commands that measure what the README claims; each fails where a claim does not hold."""
