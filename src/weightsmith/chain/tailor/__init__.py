"""Tailoring: the search for a network that meets limits on accuracy, size and energy."""
