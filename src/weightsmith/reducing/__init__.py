"""Reduce networks by distinctiveness, by genetic search, and by plain baseline criteria."""
