"""The search for the lowest optimum."""
