"""Sections of a page: one file per kind of record, which says in words, drawings and tables what the record holds."""
