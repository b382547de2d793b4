"""Weight file formats, one module each, and their shared parts: byte ranges, zip directories, safe pickles, scales."""
