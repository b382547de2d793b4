"""What is recorded during a run: rates, rasters, counts per unit, agreement with the network."""
