"""Figures: numbers in, a matplotlib figure out, the same bytes each time it is saved."""
