"""The limits of the machine, which percentages refer to."""

import functools
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import threadpoolctl

from gwfast.kernels import _kernels

REPEATS = 3
# Many times the last-level cache of a small server; and a product that takes half a second.
READ_BYTES, GEMM_SIZE = 2**30, 4096


@functools.cache
def limits(n_threads):
    """Return the largest rates of reading, GB/s, and of a product of matrices, GFLOP/s."""
    return {"read": read_bandwidth(n_threads), "sgemm": sgemm_rate(n_threads)}


def read_bandwidth(n_threads):
    """Return the largest rate of `readers` over 1 to `n_threads` threads, GB/s."""
    x, best = np.ones((READ_BYTES // 4 // 16384, 16384), dtype=np.float32), np.inf
    for k in range(1, n_threads + 1):
        with ThreadPoolExecutor(k) as pool, threadpoolctl.threadpool_limits(1):
            best = min(best, *map(_best, readers(x, pool, k)))
    return x.nbytes / 1e9 / best


def readers(x, pool, n_threads):
    """Return ways of reading the float32 matrix `x` once with `n_threads` threads.

    Two owe nothing to gwfast: NumPy's ``max``, and BLAS's ``dot`` of one half with the other half,
    on parts for each thread of the pool (both release the GIL). They are as fast as a C loop that
    sums. The third is gwfast's ``dot``: no kernel is measured against less than gwfast can read.
    """
    half = len(x) // 2
    left, right = x[:half], x[half : 2 * half]
    lefts, rights = (np.array_split(part.reshape(-1), n_threads) for part in (left, right))
    return (
        lambda: list(pool.map(np.max, (*lefts, *rights))),
        # Unlike `x @ y`, np.dot releases the GIL for vectors.
        lambda: list(pool.map(np.dot, lefts, rights)),
        lambda: _kernels.dot(left, right, n_threads),
    )


def sgemm_rate(n_threads, n=GEMM_SIZE):
    """Return the GFLOP/s of NumPy's product of two float32 matrices."""
    a, b = np.random.default_rng(0).random((2, n, n), dtype=np.float32)
    out = np.empty_like(a)
    with threadpoolctl.threadpool_limits(n_threads):
        return 2 * n**3 / 1e9 / _best(lambda: np.matmul(a, b, out=out))


def seconds(function):
    """Return the seconds of a call."""
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def _best(function):
    function()
    return min(seconds(function) for _ in range(REPEATS))
