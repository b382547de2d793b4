"""Grading: estimate how well a network is trained from its weights alone (seed 004), with evidence."""
