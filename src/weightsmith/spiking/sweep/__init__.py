"""Sweeps over thresholds, smoothing, leaks, resets and steps."""
