"""What serves one document only: its protocol, its figures, its experiments."""
