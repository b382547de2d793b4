"""Diagnosis of vanishing and exploding gradients: measurements and a verdict for every layer."""
