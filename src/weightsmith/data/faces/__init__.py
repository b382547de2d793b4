"""Face features: detection, LPQ and PHOG descriptors, and the feature table."""
