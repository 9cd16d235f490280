"""The public solvers: which start, how many points at a time, which tier."""
