"""Reading results from disk as records."""
