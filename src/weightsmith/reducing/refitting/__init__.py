"""Least-squares refit of the layers that read removed units."""
