"""How much memory a solve takes, and leaves behind."""

import gc
import sys
import warnings

import numpy as np
import pytest
from helpers.problems import distances
from helpers.processes import run_python

from gwfast import PointCloud, gromov_wasserstein


@pytest.mark.slow
@pytest.mark.process
def test_two_point_clouds_need_one_buffer():
    """Peak memory of a factored solve from the default starts: the plan's buffer, and
    half as much for profiles and what the allocator keeps of coarser levels.
    """
    # Not ru_maxrss, which a process inherits from its parent.
    script = """
import re, warnings, numpy as np, gwfast

def peak():
    with open("/proc/self/status") as status:
        return int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read())[1]) * 1024

rng = np.random.default_rng(0)
x = gwfast.PointCloud(rng.standard_normal((6000, 40)))
y = gwfast.PointCloud(rng.standard_normal((5000, 40)))
warnings.simplefilter("ignore")
tiny = gwfast.PointCloud(np.eye(3))
gwfast.gromov_wasserstein(tiny, tiny, epsilon=1.0)
before = peak()
gwfast.gromov_wasserstein(x, y, epsilon=0.05, max_outer=3)
print(peak() - before)
"""
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux tells a process's own peak")
    grown = int(run_python(script).stdout)
    buffer = 4 * 6000 * 5000
    assert buffer < grown < 1.6 * buffer


GARBAGE = {
    "point clouds": dict(cloud=True, init="auto"),
    "costs": dict(init="auto"),
    "float64": dict(dtype="float64", tol=1e-8),
    "one start": dict(init="profile"),
    "BAPG": dict(method="bapg"),
    "sparse": dict(cloud=True, init="product", tier="sparse"),
}


@pytest.mark.parametrize("options", GARBAGE.values(), ids=GARBAGE)
def test_a_solve_leaves_nothing_to_the_garbage_collector(options):
    """Its buffers are large: in a cycle they would outlive the solve by any time."""
    x = np.random.default_rng(0).standard_normal((60, 4))
    cloud, options = options.get("cloud"), {**options}
    options.pop("cloud", None)
    cost = PointCloud(x) if cloud else distances(x)

    def solve():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gromov_wasserstein(cost, cost, epsilon=0.05, **options)

    solve()
    gc.collect()
    gc.disable()
    try:
        gc.set_debug(gc.DEBUG_SAVEALL)
        solve()
        gc.collect()
        ours = [one for one in gc.garbage if type(one).__module__.startswith("gwfast")]
        arrays = [one for one in gc.garbage if isinstance(one, np.ndarray)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not ours
    assert not arrays
