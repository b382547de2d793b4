"""The L4-norm adjustment of the first layer (seed 000)."""
