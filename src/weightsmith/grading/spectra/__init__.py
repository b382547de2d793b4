"""Eigenvalues of layers: many small matrices at once, or one large one."""
