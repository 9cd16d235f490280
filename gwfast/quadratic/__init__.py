"""The quadratic problem by linear ones: linearize, solve, extrapolate, stop."""
