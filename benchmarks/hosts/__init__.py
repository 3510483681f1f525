"""Training on several hosts, which are network namespaces of this machine, and what breaks it."""
