"""Grading: how well a network is trained, told from its weights alone (seed 004), with the evidence for it."""
