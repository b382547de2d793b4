"""Figures 1 to 5 of the L4-norm paper (seed 000): the numbers and their drawings."""
