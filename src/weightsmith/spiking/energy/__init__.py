"""Synaptic operations and the energy they cost."""
