"""Data larger than memory: inputs that are read when they are needed."""
