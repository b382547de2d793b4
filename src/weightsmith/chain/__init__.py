"""Chains: recipes, pipelines, links between the packages, tailoring to limits, and reports."""
