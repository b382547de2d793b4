"""Two networks compared: sizes, layers, answers, time and energy."""
