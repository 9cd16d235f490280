"""The runner, the machine, data and the list of problems, for all benchmarks."""
