"""weightsmith measured beside what its users use today; see docs/results/how.md."""
