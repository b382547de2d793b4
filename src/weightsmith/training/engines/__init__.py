"""How one training step is computed: autograd for any network, written-out backpropagation for dense ones."""
