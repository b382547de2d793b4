"""The pruning paper's protocol (seed 003): cross-validation over initial sizes and pruning methods."""
