"""One file per format, and what the formats share: byte ranges, zip directories, pickles as descriptions, scales."""
