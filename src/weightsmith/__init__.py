"""weightsmith: a workshop for trained neural networks."""
