"""Results on disk, read as the records they are."""
