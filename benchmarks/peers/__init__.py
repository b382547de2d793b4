"""The second environment, in which other tools run: how it is built, and the reference vectors they give."""
