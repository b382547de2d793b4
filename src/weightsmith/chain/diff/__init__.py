"""Comparison of two networks: sizes, layers, answers, time and energy."""
