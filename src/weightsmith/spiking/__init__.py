"""Trained networks as spiking ones."""
