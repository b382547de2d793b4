"""Reporting: figures, tables and HTML pages from records; no tensors are read."""
