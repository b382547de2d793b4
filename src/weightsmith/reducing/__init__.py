"""Reducing: smaller real networks by distinctiveness, by genetic search, and by the plain rules they must beat."""
