"""Conversion of a trained network into a spiking one: tracing, threshold balancing, scaling, quantisation."""
