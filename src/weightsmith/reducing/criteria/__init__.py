"""Criteria that choose which units go: angles, groups, magnitude, random."""
