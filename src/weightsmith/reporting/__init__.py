"""Reporting: reads records and numbers, never tensors; gives figures, tables and pages."""
