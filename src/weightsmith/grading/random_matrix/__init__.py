"""What random matrices would give: noise, its laws, randomised twins, universality classes."""
