"""Work done block by block of rows, so that its scratch memory is bounded."""

# Bytes of float64 scratch for work done block by block of rows, and for work that passes over a
# block several times, so that it should stay in cache.
SCRATCH_BYTES, CACHED_BYTES = 8 * 2**20, 2**18


def row_blocks(n: int, m: int, scratch: int | None = None) -> list[slice]:
    """Slices of rows of an (n, m) float64 matrix that fit the scratch."""
    step = max(1, (SCRATCH_BYTES if scratch is None else scratch) // (8 * m))
    return [slice(i, min(i + step, n)) for i in range(0, n, step)]
