"""Vanishing and exploding gradients: what is measured, and the verdict for every layer."""
