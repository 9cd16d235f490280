"""Reading vectors from text."""
