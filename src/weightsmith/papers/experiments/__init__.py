"""One file for each experiment: what a document claims, what is measured, and how the verdict follows."""
