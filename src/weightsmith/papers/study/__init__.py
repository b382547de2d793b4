"""The pruning paper's protocol (seed 003): folds, sizes and methods on one table."""
