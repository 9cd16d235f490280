"""What the machine is, and what it can do at best: the limits of every percentage."""

import functools
import os
import platform
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import threadpoolctl

from gwfast.kernels import _kernels, _rows
from gwfast.utils import config

from . import settings
from .processes import command
from .versions import blas_environment, version

REPEATS = 7
PACKAGES = ("numpy", "scipy", "POT", "jax", "jaxlib", "ott-jax", "torch", "torchgw")
# OpenBLAS takes kernels of AVX2 on some processors that have AVX-512, where it is old
# or its environment says so.
WIDEST = {"OPENBLAS_CORETYPE": "SkylakeX"}


@functools.cache
def limits(n_threads):
    """Read bandwidth and SGEMM rate, each the best of all that was tried.

    Returns
    -------
    dict
        ``read``, GB/s; ``sgemm``, GFLOP/s; ``reads``, GB/s of every method and number
        of threads, of which `read` is the largest; ``sgemms``, GFLOP/s of NumPy's as
        it comes and with the widest kernels, of which `sgemm` is the larger.
    """
    reads, sgemms = read_bandwidths(n_threads), sgemm_rates(n_threads)
    return {"read": fastest(reads), "sgemm": max(sgemms.values()), "reads": reads, "sgemms": sgemms}


def read_bandwidths(n_threads):
    """GB/s of reading 1 GiB of float32 once, ``{method: {threads: GB/s}}``."""
    x = np.ones((settings.READ_MB * 2**20 // 4 // 16384, 16384), dtype=np.float32)
    rates = {}
    for k in range(1, n_threads + 1):
        with ThreadPoolExecutor(k) as pool, threadpoolctl.threadpool_limits(1):
            for name, method in read_methods(x, pool, k).items():
                rates.setdefault(name, {})[k] = x.nbytes / 1e9 / _best(method)
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
    lefts, rights = (np.array_split(part.reshape(-1), n_threads) for part in (left, right))
    return {
        "NumPy max": lambda: list(pool.map(np.max, (*lefts, *rights))),
        # Unlike `x @ y`, np.dot releases the GIL for vectors.
        "BLAS dot": lambda: list(pool.map(np.dot, lefts, rights)),
        "gwfast dot": lambda: _kernels.dot(left, right, n_threads),
    }


def fastest(reads):
    """The largest of `read_bandwidths`."""
    return max(rate for rates in reads.values() for rate in rates.values())


def sgemm_rates(n_threads):
    """GFLOP/s of `sgemm_rate`, as NumPy comes, and on processors with AVX-512 where
    its BLAS is made to use that, which takes a new process.
    """
    rates = {"as NumPy comes": sgemm_rate(n_threads)}
    is_widest = WIDEST.items() <= os.environ.items()
    if is_widest or "avx512" not in _rows.supported_isas():
        return rates
    again = command(__spec__.name, n_threads)
    environment = {**os.environ, **WIDEST}
    try:
        done = subprocess.run(again, env=environment, capture_output=True, text=True, check=True)
        (setting,) = WIDEST.items()
        rates[f"with {'='.join(setting)}"] = float(done.stdout)
    except (OSError, subprocess.CalledProcessError, ValueError):
        pass  # as it comes is what there is
    return rates


def sgemm_rate(n_threads):
    """GFLOP/s of NumPy's product of two float32 matrices, all threads."""
    rng, n = np.random.default_rng(0), settings.GEMM
    a, b = rng.random((2, n, n), dtype=np.float32)
    out = np.empty_like(a)
    with threadpoolctl.threadpool_limits(n_threads):
        return 2 * n**3 / 1e9 / _best(lambda: np.matmul(a, b, out=out))


def _best(function):
    function()
    return min(seconds(function) for _ in range(REPEATS))


def seconds(function):
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def describe(n_threads):
    """Facts that belong beside every figure; versions are None where not installed."""
    facts = config.config()
    versions = {"gwfast": facts["gwfast"]}
    versions |= {name: version(name) for name in PACKAGES}
    return {
        "limits": limits(n_threads),
        "threads": n_threads,
        "cpu": processor(),
        "cpus": os.cpu_count(),
        "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "load": os.getloadavg(),
        "config": facts,
        "environment": blas_environment(),
        "versions": versions,
    }


def processor():
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    print(sgemm_rate(int(sys.argv[1])))
