"""From a trained network to a spiking one: tracing, thresholds, scaling, rounding."""
