"""Reproductions of single documents: their protocols, figures and experiments."""
