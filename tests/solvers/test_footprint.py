"""How much memory a solve takes, and leaves behind."""

import gc
import sys

import pytest
from helpers.problems import cloud, distances, settings
from helpers.processes import run_python

import gwfast
from gwfast import PointCloud, gromov_wasserstein

# Prints by how much each solve lets the interpreter grow, and the size in its refusal.
MEASURE = """
import re, sys, warnings
sys.path += "..", "../.."  # of the folder of helpers
import numpy as np
from benchmarks.common.footprint import Footprint
from gwfast import Partial, PointCloud, Unbalanced, gromov_wasserstein
from helpers.problems import cloud, settings
from scipy.spatial.distance import cdist

warnings.simplefilter("ignore")

def sides_of(kind, n, m):
    x = cloud(max(n, m), 20, 0) * np.linspace(1, 3, 20)
    sides = x[:n], x[:m, ::-1] + 0.05 * cloud(m, 20, 1)
    if kind == "clouds":
        return [PointCloud(side) for side in sides]
    costs = [cdist(side, side) for side in sides]
    if kind == "asymmetric":
        costs = [cost + np.triu(np.ones(cost.shape)) for cost in costs]
    return [(cost / cost.max()).astype(np.float32) for cost in costs]

for name, (kind, n, m, tol, max_iter, options) in {footprints}.items():
    tier = options.get("tier", "dense")
    options = dict(epsilon=0.02, n_threads=2, max_iter=max_iter, tol=tol) | options
    options = settings(max_inner=200, marginal_tol=tol, **options)
    gromov_wasserstein(*sides_of(kind, 40, 30), **options)
    sides = sides_of(kind, n, m)
    footprint = Footprint()
    gromov_wasserstein(*sides, **options)
    grown = 1e6 * footprint.above
    try:
        gromov_wasserstein(*sides, **options | dict(memory_limit=1))
    except MemoryError as error:
        said = 1e9 * float(re.search(rf"([-+.e0-9]+) GB \\({tier}\\)", str(error))[1])
    print(name, grown, said, sep="\\t")
"""
# Kind of the costs, points of both sides, tolerance, limit of outer iterations, and options.
PRODUCT = dict(init="product")
SEMIRELAXED = dict(marginals="semirelaxed", **PRODUCT)
PARTIAL = dict(marginals=gwfast.Partial(0.7), dtype="float64", **PRODUCT)
UNBALANCED = dict(marginals=gwfast.Unbalanced((1.0, 2.0)), **PRODUCT)
FOOTPRINTS = {
    "dense costs": ("symmetric", 1100, 900, 1e-3, 60, PRODUCT),
    "a race": ("symmetric", 400, 300, 1e-3, 60, {}),
    "a race over eigenvectors": ("symmetric", 1100, 900, 1e-3, 60, {}),
    "a race in float64": ("symmetric", 900, 900, 1e-9, 60, dict(dtype="float64")),
    "unbalanced": ("symmetric", 1100, 900, 1e-3, 60, UNBALANCED),
    "float64": ("symmetric", 1100, 900, 1e-9, 60, dict(dtype="float64", **PRODUCT)),
    "asymmetric": ("asymmetric", 900, 1000, 1e-3, 3, PRODUCT),
    "semirelaxed": ("symmetric", 1100, 900, 1e-3, 10, SEMIRELAXED),
    "partial": ("symmetric", 1000, 900, 1e-3, 60, PARTIAL),
    "BAPG": ("symmetric", 1100, 900, 1e-3, 3, dict(method="bapg", dtype="float64", **PRODUCT)),
    # No room for escapes after the race.
    "a race of clouds": ("clouds", 6000, 5000, 1e-3, 3, dict(memory_limit="200MB")),
    "dense": ("clouds", 3000, 2500, 1e-3, 20, dict(tier="dense", **PRODUCT)),
    "neighbors": ("clouds", 20000, 15000, 1e-3, 2, dict(tier="neighbors", **PRODUCT)),
    "tiled": ("clouds", 3000, 2500, 1e-3, 5, dict(tier="tiled", **PRODUCT)),
    "costs of clouds": ("clouds", 1000, 1000, 1e-3, 5, SEMIRELAXED),
}


def only_on_linux(test):
    skip = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
    return pytest.mark.slow(pytest.mark.process(skip(test)))


@only_on_linux
def test_a_solve_takes_the_size_in_its_refusal():
    """At most that, and at least half, but for 8 MB that belong to the interpreter."""
    code, sizes = MEASURE.replace("{footprints}", repr(FOOTPRINTS)), {}
    for line in run_python(code, OMP_NUM_THREADS="2").stdout.splitlines():
        name, *numbers = line.split("\t")
        sizes[name] = grown, said = [*map(float, numbers)]
        assert grown - 8e6 <= said <= 2 * (grown + 8e6), line
    assert sizes.keys() == FOOTPRINTS.keys()
    # A buffer of the size of the plan, and half of it for profiles and coarser levels.
    assert 1.0 < sizes["a race of clouds"][0] / (4 * 6000 * 5000) < 1.6


GARBAGE = {
    "point clouds": (PointCloud, dict(init="auto", search_time=0.01)),
    "float64": (distances, dict(dtype="float64", init="product", tol=1e-8)),
    "neighbors": (PointCloud, dict(tier="neighbors", init="product")),
    "profile": (distances, dict(init="profile")),
    "BAPG": (distances, dict(method="bapg")),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make, options", GARBAGE.values(), ids=GARBAGE)
def test_a_solve_leaves_nothing_to_the_garbage_collector(make, options):
    """Its buffers are large: in a cycle they would outlive the solve by any time."""

    def solve():
        sides = make(cloud(40, 4, 0)), make(cloud(40, 4, 0))
        gromov_wasserstein(*sides, **settings(epsilon=0.05, n_threads=1, **options))

    solve()  # imports what it needs
    gc.collect()
    gc.freeze()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        solve()
        gc.collect()
        left = [type(one) for one in gc.garbage]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
    assert not [one for one in left if one.__module__.startswith(("gwfast", "numpy"))]
