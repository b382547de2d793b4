"""Fits to the tail of a spectrum: the power law, its alternatives, and how sure the fit is."""
