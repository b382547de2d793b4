"""Getting accuracy back after a cut: recalibration, fine-tuning, rewinding."""
