"""Spiking networks as plain torch modules that need nothing of this package."""
