"""What is promised about files, kills and calls, tried in bulk: ``python -m benchmarks.trust`` (make trust)."""
