"""The chain: recipes, what wires the workshops to each other, and the search for a network that meets limits."""
