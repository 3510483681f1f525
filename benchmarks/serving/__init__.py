"""Text in, label out: speed, cold start, size and memory of exported models, next to other runtimes."""
