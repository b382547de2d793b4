"""Figures: numbers in, a matplotlib figure out, reproducible byte for byte."""
