"""The exchange format NIR: writing, reading, and running the files in other tools."""
