"""``gwfast.pot`` beside POT itself, on the same float64 arrays."""
