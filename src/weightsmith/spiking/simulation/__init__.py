"""Running a spiking network: the compiled engine and the torch reference."""
