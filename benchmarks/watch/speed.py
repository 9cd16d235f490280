"""Solves whose time asv compares with the last release, see ../README.md. Most are problems of the
list in ../common/problems.py that need no data; problems whose data are missing are left out.
"""

import functools
import os
import sys
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "2")
# Last: gwfast is the installed one, not the folder of this tree.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks import compare
from benchmarks.common import problems, simulated

LISTED = [
    "shapes 0 1",
    "shapes 4 5 small",
    "shapes 8 9 exact",
    "shapes 12 13 kl",
    "shapes 16 17 partial",
    "graphs 0 1",
    "graphs 2 3 exact",
    "points 200",
    "points 500 small",
    "points 1200",
    "points 300 ppa",
    "points 300 bapg",
    "points 400 semirelaxed",
    "points 400 partial",
    "points 400 unbalanced",
    "points 800 exact",
    "clouds 1000",
    "clouds 3000 product",
    "clouds 2000 fused",
    "clouds 700 float64",
]
# Words, and points whose spectrum is like a language's.
LARGE = {
    "words es-fr 10000": (problems.words, "es-fr", 10_000),
    "clouds 10000": (problems.clouds, 10_000),
}
SMALL = [f"pot entropic {n}" for n in (20, 50, 100)]


def solver(name):
    """Return a function that solves the problem of this name."""
    import gwfast.pot

    if name in LARGE:
        build, *arguments = LARGE[name]
        return functools.partial(gwfast.gromov_wasserstein, *build(*arguments))
    if name in SMALL:
        points = simulated.points(int(name.split()[-1]))
        return functools.partial(gwfast.pot.entropic_gromov_wasserstein, *points, epsilon=5e-3)
    return compare.solver(name)


class Solve:
    params = (*LISTED, "pot semirelaxed 200", "pot partial 100", *SMALL, *LARGE)
    param_names = ("problem",)
    timeout = 600
    min_run_count = 3

    def setup(self, name):
        warnings.simplefilter("ignore")
        try:
            self.solve = solver(name)
        except FileNotFoundError as error:
            raise NotImplementedError from error  # which leaves the problem out

    def time_solve(self, name):
        self.solve()
