"""Whether the search finds the right optimum, and what plans are worth."""
