"""What the machine is, and what it can do at best: the limits of every percentage."""

import functools
import importlib.metadata
import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import threadpoolctl

from gwfast import _config
from gwfast.kernels import _kernels

# Many times the largest last-level cache of a desktop or a small server.
READ_BYTES = 2**30
GEMM_SIZE = 4096
REPEATS = 7
PACKAGES = ("gwfast-ot", "numpy", "scipy", "POT", "jax", "jaxlib", "ott-jax")


@functools.cache
def limits(n_threads):
    """Read bandwidth and SGEMM rate, each the best of all that was tried.

    Returns
    -------
    dict
        ``read``, GB/s; ``sgemm``, GFLOP/s; ``reads``, GB/s of every method and number
        of threads, of which `read` is the largest.
    """
    reads = read_bandwidths(n_threads)
    return {"read": fastest(reads), "sgemm": sgemm_rate(n_threads), "reads": reads}


def read_bandwidths(n_threads):
    """GB/s of reading 1 GiB of float32 once, ``{method: {threads: GB/s}}``."""
    x = np.ones((READ_BYTES // 4 // 16384, 16384), dtype=np.float32)
    rates = {}
    for k in range(1, n_threads + 1):
        with ThreadPoolExecutor(k) as pool, threadpoolctl.threadpool_limits(1):
            for name, method in read_methods(x, pool, k).items():
                rates.setdefault(name, {})[k] = READ_BYTES / 1e9 / _best(method)
    return rates


def read_methods(x, pool, n_threads):
    """Ways of reading the float32 matrix `x` once with as many threads.

    Two owe nothing to gwfast: NumPy's ``max``, and BLAS's ``dot`` of one half with the
    other, every thread of `pool` on parts of its own (both release the GIL). They do
    one operation per number loaded and are as fast as a plain C loop that sums;
    NumPy's ``sum`` is not (it adds pairwise). Two streams a thread, as in ``dot``, are
    more than one wherever a core waits for memory. The third is gwfast's ``dot``, so
    that no kernel is measured against less than gwfast can read itself.
    """
    half = len(x) // 2
    left, right = x[:half], x[half : 2 * half]
    lefts, rights = (
        np.array_split(part.reshape(-1), n_threads) for part in (left, right)
    )
    return {
        "NumPy max": lambda: list(pool.map(np.max, (*lefts, *rights))),
        # Unlike `x @ y`, np.dot releases the GIL for vectors.
        "BLAS dot": lambda: list(pool.map(np.dot, lefts, rights)),
        "gwfast dot": lambda: _kernels.dot(left, right, n_threads),
    }


def fastest(reads):
    """The largest of `read_bandwidths`."""
    return max(rate for rates in reads.values() for rate in rates.values())


def sgemm_rate(n_threads):
    """GFLOP/s of NumPy's product of two float32 matrices, all threads."""
    rng = np.random.default_rng(0)
    a, b = rng.random((2, GEMM_SIZE, GEMM_SIZE), dtype=np.float32)
    out = np.empty_like(a)
    with threadpoolctl.threadpool_limits(n_threads):
        return 2 * GEMM_SIZE**3 / 1e9 / _best(lambda: np.matmul(a, b, out=out))


def _best(function):
    function()
    return min(seconds(function) for _ in range(REPEATS))


def seconds(function):
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def describe(n_threads):
    """Facts that belong beside every figure; versions are None where not installed."""
    return {
        "limits": limits(n_threads),
        # Once more, as this is called at the end: neighbors on a shared machine come
        # and go.
        "read_after": fastest(read_bandwidths(n_threads)),
        "threads": n_threads,
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
        "config": _config.config(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def _version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
