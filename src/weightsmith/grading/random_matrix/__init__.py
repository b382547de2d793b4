"""Random matrix theory: the noise bulk, its laws, randomised twins, universality classes."""
