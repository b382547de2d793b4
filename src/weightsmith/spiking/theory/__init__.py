"""The membrane potential as a random variable: formulas and the simulations that check them."""
