"""``gwfast.pot`` beside POT itself."""
