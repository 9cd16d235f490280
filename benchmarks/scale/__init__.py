"""Large problems beside the machine's limits, OTT-JAX's low-rank solver and Dask's workers."""
