"""Large problems beside the machine's limits; see `benchmarks.scale.__main__`."""

WORKER = f"{__name__}.worker"
