"""Faces as numbers: detection, LPQ and PHOG descriptors, and the table of features."""
