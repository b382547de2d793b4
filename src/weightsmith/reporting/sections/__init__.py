"""Sections of a page: one file per type of record, which presents it in text, drawings and tables."""
