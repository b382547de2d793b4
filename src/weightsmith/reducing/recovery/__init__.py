"""Recovering accuracy after a cut: recalibration, fine-tuning, rewinding."""
