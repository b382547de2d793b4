"""Networks: build, read, write, walk, recognise, evaluate."""
