"""Which optimum is found, and how good the translations are."""
