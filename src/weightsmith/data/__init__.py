"""Data sets: load, split, augment, normalise."""
