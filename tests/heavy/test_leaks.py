"""Solves leave no memory behind, even if they fail.

A process solves tiny problems, the small cases of tests/conformance and calls that fail, and then
some whose allocations Python traces. After the first fifth, it may grow by `MAX_GROWN` bytes, and
after half of the traced solves, Python may have `MAX_TRACED` bytes (NumPy's arrays included) and
`MAX_OBJECTS` objects more. This file is the program of that process, too.
"""

import functools
import gc
import itertools
import statistics
import subprocess
import sys
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the program

from conformance.cases import CASES, Case
from helpers.problems import cloud, distances
from helpers.processes import environment

import gwfast

# Limits leave room for the noise of the allocator and for Python's free lists (32 kB). A small
# array in each of 2000 traced solves takes twice the second limit.
MAX_GROWN, MAX_TRACED, MAX_OBJECTS = 2 << 20, 128 << 10, 40
LOOKS = 12

POINTS = cloud(12, 3, seed=0), cloud(10, 3, seed=1)
CLOUDS = [*map(gwfast.PointCloud, POINTS)]
COSTS = [*map(distances, POINTS)]
PARTIAL = dict(init="product", tol=1e-12, marginals=gwfast.Partial(0.7))
SHORT = dict(epsilon=0.05, max_iter=2, options=gwfast.SolverOptions(max_inner=10))


def raises(error):
    raise error


def solved(case):
    """Solve a case, and ask for every form of its plan."""
    coupling = case.solve().coupling
    coupling.toarray(), coupling.topk(1), coupling.tocsr()


def fails(error, sides, options):
    with pytest.raises(error):
        gwfast.gromov_wasserstein(*sides, **options)


FAILURES = [
    (RuntimeError, CLOUDS, dict(callback=lambda step: raises(RuntimeError))),
    (RuntimeError, CLOUDS, dict(progress=lambda *arguments: raises(RuntimeError))),
    (KeyboardInterrupt, COSTS, PARTIAL | dict(callback=lambda step: raises(KeyboardInterrupt))),
    (ValueError, (np.ones((12, 10)), COSTS[1]), {}),
    (ValueError, COSTS, dict(p=-np.ones(12))),
    (ValueError, (COSTS[0] * np.nan, COSTS[1]), {}),
    (TypeError, COSTS, dict(memory_limit=[1])),
    (ValueError, CLOUDS, dict(init=np.full((12, 10), -1.0))),
    (ValueError, COSTS, dict(epsilon=1e-12)),
    (MemoryError, CLOUDS, dict(memory_limit=10)),
]
KINDS = [
    *(functools.partial(solved, Case(case)) for case in CASES if max(case["size"]) <= 7),
    *(functools.partial(fails, *failure) for failure in FAILURES),
    lambda: gwfast.gromov_wasserstein_batch([COSTS, COSTS], n_threads=2, init="product", **SHORT),
    lambda: gwfast.sinkhorn(np.ones((12, 10)), epsilon=0.05),
    lambda: gwfast.align(*POINTS, epsilon=0.05, init="product"),
    lambda: gwfast.pot.entropic_gromov_wasserstein(*COSTS, epsilon=0.05, max_iter=5),
]


def run(n_solves):
    """Solve problems of each kind in turn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for function in itertools.islice(itertools.cycle(KINDS), n_solves):
            function()


def grown(n_solves):
    """Return by how many bytes the process has grown after a fifth of the solves."""
    run(n_solves // 5)
    sizes = []
    for _ in range(LOOKS):
        run(n_solves * 4 // 5 // LOOKS)
        gc.collect()
        sizes.append(4096 * int(Path("/proc/self/statm").read_text().split()[1]))
    return statistics.median(sizes[-3:]) - statistics.median(sizes[:3])


def traced(n_solves):
    """Return how many bytes and objects Python has more after the second half, and from where."""
    n_solves = -(-n_solves // 2 // len(KINDS)) * len(KINDS)  # all kinds, in both halves
    run(n_solves)
    gc.collect()
    tracemalloc.start(8)
    n_objects = len(gc.get_objects())
    run(n_solves)
    gc.collect()
    size, n_objects = tracemalloc.get_traced_memory()[0], len(gc.get_objects()) - n_objects
    where = tracemalloc.take_snapshot().statistics("traceback")[:3]
    tracemalloc.stop()
    return size, n_objects, where


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("n_solves, n_traced", [
    pytest.param(120, 80, marks=[pytest.mark.slow, pytest.mark.process]),
    pytest.param(10_000, 2000, marks=pytest.mark.heavy),
])  # fmt: skip
def test_solves_leave_nothing(n_solves, n_traced):
    command = [sys.executable, __file__, str(n_solves), str(n_traced)]
    subprocess.run(command, env=environment(), check=True)


def main(n_solves, n_traced):
    size = grown(n_solves)
    print(f"{n_solves} solves of {len(KINDS)} kinds: grown by {size / 1e3:.0f} kB")
    kept, objects, where = traced(n_traced)
    print(f"{n_traced} traced: {kept} bytes and {objects} objects more")
    for statistic in where:
        print(statistic, *statistic.traceback.format(), sep="\n")
    return size > MAX_GROWN or kept > MAX_TRACED or objects > MAX_OBJECTS


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
