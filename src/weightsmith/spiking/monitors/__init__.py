"""Monitors of a run: rates, rasters, spike counts per unit, agreement with the original network."""
