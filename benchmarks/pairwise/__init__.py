"""All pairs of many small spaces, against loops over other solvers."""
