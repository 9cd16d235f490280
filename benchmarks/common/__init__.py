"""What all benchmarks share: settings, the machine, data, tables, processes."""
