"""Figures of spiking networks."""
