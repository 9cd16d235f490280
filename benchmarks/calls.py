"""Costs of one call: ``python -m benchmarks.calls``.

Prints the milliseconds of public calls on two clouds of 10, 100 and 1000 points, each a copy of
the other with noise: of the default call with its search, of calls without a part of it, and of
POT where it is installed. The table stands in ``docs/which-call.md``.
"""

import functools

import numpy as np
from scipy.spatial.distance import cdist

import gwfast
import gwfast.pot

from .common import runner

SIZES = 10, 100, 1000


def spaces(n):
    """Return two clouds of points in space, the second turned and with noise."""
    rng = np.random.default_rng(n)
    x = rng.standard_exponential((n, 3)) * [1.0, 2.0, 3.0]
    y = x @ np.linalg.qr(rng.standard_normal((3, 3)))[0]
    return x, y + 0.1 * rng.standard_normal(y.shape)


def calls(n):
    """Return calls on clouds of `n` points by their names in the table."""
    x, y = spaces(n)
    C1, C2 = cdist(x, x), cdist(y, y)
    clouds = gwfast.PointCloud(x, "sqeuclidean"), gwfast.PointCloud(y, "sqeuclidean")
    epsilon = gwfast.gromov_wasserstein(C1, C2, init="product").epsilon
    solve, theirs = gwfast.gromov_wasserstein, {"epsilon": 2 * epsilon}
    found = {
        "`gromov_wasserstein(C1, C2)`: a search": lambda: solve(C1, C2),
        "the same of two `PointCloud`s": lambda: solve(*clouds),
        '`init="product"`: one start': lambda: solve(C1, C2, init="product"),
        "`epsilon=0`: a search, sharp matches": lambda: solve(C1, C2, epsilon=0),
        "`align(x, y)`: a search, and a mapping": lambda: gwfast.align(x, y),
        "`gwfast.pot.entropic_gromov_wasserstein`": functools.partial(
            gwfast.pot.entropic_gromov_wasserstein, C1, C2, **theirs
        ),
    }
    if n <= 100:
        pairs = [(C1, C2)] * 100
        batch = functools.partial(gwfast.gromov_wasserstein_batch, pairs)
        found["a problem of `gromov_wasserstein_batch` of 100"] = batch
    try:
        import ot
    except ImportError:
        return found
    call = functools.partial(ot.gromov.entropic_gromov_wasserstein, C1, C2, **theirs)
    return found | {"POT's `entropic_gromov_wasserstein`": call}


def table(options):
    """Print the median time of each call, in milliseconds."""
    columns, sizes = {}, options.sizes or SIZES
    for n in sizes:
        named = calls(n)
        seconds, _ = runner.in_turns([*named.values()], options.rounds)
        for name, taken in zip(named, seconds, strict=True):
            share = 1e3 / (100 if "batch" in name else 1)
            columns.setdefault(name, {})[n] = runner.shown(taken, share)
    rows = [[name, *(cells.get(n, "") for n in sizes)] for name, cells in columns.items()]
    heads = ("ms, median [min]", *(f"n = {n}" for n in sizes))
    runner.show("one call on two clouds of n points", heads, rows)


TABLES = {"calls": table}


def main(argv=None):
    options = runner.parse(__spec__.name, __doc__, TABLES, "rounds", "sizes", argv=argv)
    runner.make_tables(options, TABLES, ("POT",))


if __name__ == "__main__":
    main()
