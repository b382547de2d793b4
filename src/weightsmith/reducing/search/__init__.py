"""Searches for the units to keep: the genetic algorithm of the paper, and NSGA-II."""
