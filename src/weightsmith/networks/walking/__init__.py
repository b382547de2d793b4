"""How weights are found and read as matrices: by module type, or by names and shapes. :mod:`..layers` is the door."""
