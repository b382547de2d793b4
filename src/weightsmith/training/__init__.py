"""Training: the techniques of the slides (seed 002) as option objects, behind one function ``train``."""
