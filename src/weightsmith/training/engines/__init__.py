"""Gradient engines: autograd for any network, hand-written backpropagation for dense ones."""
