"""What all benchmarks share: the runner, the machine, data, the list of problems."""
