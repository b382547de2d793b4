"""Sites where units can be removed, and their removal from the tensors of a network."""
