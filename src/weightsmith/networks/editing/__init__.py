"""Networks changed into other networks: batch norm folded, layers resized, values replaced, heads added."""
