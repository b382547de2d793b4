"""Training: every technique of the slides (seed 002) as an option object, one verb, one record out."""
