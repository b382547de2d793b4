"""Network surgery: fold batch norm, resize layers, replace values, add heads."""
