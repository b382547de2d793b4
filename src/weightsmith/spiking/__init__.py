"""Convert trained networks into spiking ones, run them and measure them."""
