"""Threads, sizes and limits of the benchmarks under pytest-benchmark."""

import os

import pytest
import threadpoolctl

from ..common import runner

# OpenMP and BLAS read the number of threads when they are loaded.
os.environ.update(runner.environment(runner.THREADS))
# A matrix of 16 MB may stay in cache, as in a small solve; a matrix of 1 GB does not.
SIZES = [int(n) for n in os.environ.get("GWFAST_BENCH_KERNELS", "2000,16000").split(",")]


@pytest.fixture(params=SIZES, ids="n={}".format)
def n(request):
    return request.param


@pytest.fixture(scope="session")
def limits():
    """Return what this machine can do at best."""
    from ..common import machine

    return machine.limits(runner.THREADS)


@pytest.fixture
def bench(benchmark):
    """Return the benchmark, with BLAS held to the number of threads that everything gets."""
    benchmark.extra_info["load"] = round(os.getloadavg()[0], 2)
    with threadpoolctl.threadpool_limits(runner.THREADS):
        yield benchmark
