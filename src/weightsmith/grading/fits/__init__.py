"""Fits to the tail of a spectrum: the power law, its alternatives, intervals and goodness of fit."""
