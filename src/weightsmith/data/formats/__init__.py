"""File formats of data sets: one file per format."""
