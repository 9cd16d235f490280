"""The quadratic problem by linear ones: linearize, solve, follow the steps, stop."""
