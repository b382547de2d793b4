"""Criteria that choose which units to remove: angles, groups, magnitude, random."""
