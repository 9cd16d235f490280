"""The list of problems. A line in `PROBLEMS` adds one: its name, whose first word is a
class, how its spaces are made, epsilon, and settings of `gwfast.gromov_wasserstein`, flat.

Spaces are made from ``../shared/data`` or from seeds; an epsilon in percent is of the
objective of the product plan, as ``Epsilon(relative=...)`` has it; a number is absolute.
"""

import functools

import numpy as np
from scipy.spatial.distance import cdist

from ..common import pairs
from ..common.settings import solver_arguments
from ..pairwise import spaces
from ..solvers.problems import shortest_paths, unit_center_unit


def words(pair, n):
    """Point clouds of the most frequent words of two languages."""
    import gwfast

    return [gwfast.PointCloud(side) for side in _vectors(pair, n)]


def word_graphs(pair, n):
    """Shortest paths along nearest neighbors of words."""
    return [shortest_paths(side) for side in _vectors(pair, n)]


def cells(name, n, k):
    """Hops along nearest neighbors of cells."""
    return [pairs.hops(_some(side, n), k) for side in pairs.cells(name)[:2]]


def cell_distances(name, n):
    """Euclidean distances of cells, at most one."""
    sides = (_some(side, n) for side in pairs.cells(name)[:2])
    return [cost / cost.max() for cost in (cdist(side, side) for side in sides)]


def shapes(first, second):
    """Distances between 50 to 100 points of two curves."""
    made = spaces.shapes(max(first, second) + 1)
    return [made[first] / made[first].max(), made[second] / made[second].max()]


def graphs(first, second):
    """Steps between the 12 to 29 nodes of two random graphs."""
    made = spaces.graphs(max(first, second) + 1)
    return [made[first], made[second]]


def points(n, d=3, noise=0.02, seed=None):
    """Distances between points in space and a permuted, noisy copy."""
    rng = np.random.default_rng(n if seed is None else seed)
    x = rng.exponential(size=(n, d)) * np.arange(1, d + 1)
    y = rng.permutation(x + noise * rng.standard_normal((n, d)))
    return [cost / cost.max() for cost in (cdist(x, x), cdist(y, y))]


def clouds(n, d=50, noise=0.3):
    """Point clouds with a spectrum like that of words, and a rotated, noisy copy."""
    x, y, _ = _rotated(n, d, noise)
    return [x, y]


def fused_clouds(n, d=50, noise=0.3, k=10):
    """The same, and noisy features that points and their copies have in common."""
    import gwfast

    x, y, order = _rotated(n, d, noise)
    rng = np.random.default_rng(n + 1)
    features = rng.standard_normal((n, k)) / 5
    others = (features + 0.1 * rng.standard_normal((n, k)))[order]
    if not hasattr(gwfast, "CrossCost"):  # a tree from before there was one
        return [x, y, cdist(features, others, "sqeuclidean")]
    return [x, y, gwfast.CrossCost(features, others)]


def _rotated(n, d, noise):
    import gwfast

    rng = np.random.default_rng(n)
    x = rng.standard_normal((n, d)) * (1 + np.arange(d)) ** -0.5
    x += 0.5 * rng.standard_exponential((n, 1)) * rng.standard_normal(d)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    y = (x + noise * x.std() * rng.standard_normal((n, d))) @ turn
    order = rng.permutation(n)
    return gwfast.PointCloud(x), gwfast.PointCloud(y[order]), order


def tissue():
    """Distances between the spots of two slices; the linear cost is of their genes."""
    slices = [np.load(pairs.FOLDER / f"tissue/slice{k}.npz") for k in (1, 2)]
    costs = [cdist(one["xy"], one["xy"]) for one in slices]
    genes = [np.log1p(one["counts"] / one["total"][:, None] * 1e4) for one in slices]
    linear = cdist(*genes, "sqeuclidean")
    return [*(cost / cost.max() for cost in costs), linear / linear.max()]


def _vectors(pair, n):
    x, y, _ = pairs.language_pair(pair)
    return [unit_center_unit(side.vectors)[:n] for side in (x, y)]


def _some(side, n):
    return side[np.sort(np.random.default_rng(0).permutation(len(side))[:n])]


PRODUCT = {"init": "product"}
WIDE, USUAL, SMALL, LEAST = "5%", "1.75%", "0.5%", "0.1%"
PGD64 = {**PRODUCT, "dtype": "float64"}
SEMI = {**PRODUCT, "marginals": "semirelaxed"}
PARTIAL = {**PRODUCT, "marginals": "partial", "mass": 0.7}
FREE = {**PRODUCT, "marginals": "unbalanced", "rho": 0.1}

# Name, how the spaces are made, epsilon, other options.
PROBLEMS = [
    ("words es-en 600", (words, "es-en", 600), USUAL, {}),
    ("words es-en 1000", (words, "es-en", 1000), USUAL, {}),
    ("words es-en 2000", (words, "es-en", 2000), USUAL, {}),
    ("words es-en 2000 product", (words, "es-en", 2000), USUAL, PRODUCT),
    ("words es-en 2000 small", (words, "es-en", 2000), SMALL, PRODUCT),
    ("words es-fr 2000", (words, "es-fr", 2000), USUAL, {}),
    ("words es-fr 5000 product", (words, "es-fr", 5000), USUAL, PRODUCT),
    ("words es-fr 12000", (words, "es-fr", 12_000), USUAL, {}),
    ("words es-fr 1000 tiled", (words, "es-fr", 1000), USUAL,
     {**PRODUCT, "tier": "tiled"}),
    ("words zh-en 1500", (words, "zh-en", 1500), USUAL, {}),
    ("words zh-en 1500 wide", (words, "zh-en", 1500), WIDE, {}),
    ("words en-fr 3000", (words, "en-fr", 3000), USUAL, {}),
    ("graph es-en 300", (word_graphs, "es-en", 300), USUAL, {}),
    ("graph es-en 700", (word_graphs, "es-en", 700), USUAL, {}),
    ("graph es-en 1000", (word_graphs, "es-en", 1000), USUAL, {}),
    ("graph es-en 1000 product", (word_graphs, "es-en", 1000), USUAL, PRODUCT),
    ("graph es-en 1000 least", (word_graphs, "es-en", 1000), LEAST, PRODUCT),
    ("graph es-fr 1500 product", (word_graphs, "es-fr", 1500), USUAL, PRODUCT),
    ("graph es-en 2300 product", (word_graphs, "es-en", 2300), USUAL, PRODUCT),
    ("graph es-en 700 float64", (word_graphs, "es-en", 700), USUAL, PGD64),
    ("graph es-en 700 kl", (word_graphs, "es-en", 700), USUAL,
     {**PRODUCT, "loss": "kl"}),
    ("graph es-en 600 semirelaxed", (word_graphs, "es-en", 600), USUAL, SEMI),
    ("graph es-en 600 partial", (word_graphs, "es-en", 600), USUAL, PARTIAL),
    ("cells scGEM", (cells, "scGEM", 177, 20), USUAL, {}),
    ("cells scGEM product", (cells, "scGEM", 177, 20), USUAL, PRODUCT),
    ("cells scGEM small", (cells, "scGEM", 177, 10), SMALL, {}),
    ("cells scGEM distances", (cell_distances, "scGEM", 177), USUAL, {}),
    ("cells scGEM exact", (cells, "scGEM", 177, 20), 0, PRODUCT),
    ("cells PBMC 300", (cells, "PBMC", 300, 20), USUAL, {}),
    ("cells PBMC 700", (cells, "PBMC", 700, 20), USUAL, PRODUCT),
    ("cells PBMC 700 small", (cells, "PBMC", 700, 50), SMALL, PRODUCT),
    ("cells PBMC 1000", (cells, "PBMC", 1000, 20), USUAL, PRODUCT),
    ("cells PBMC 1000 auto", (cells, "PBMC", 1000, 20), USUAL, {}),
    ("cells PBMC 1000 float64", (cells, "PBMC", 1000, 110), USUAL, PGD64),
    ("cells PBMC 1000 exact", (cells, "PBMC", 1000, 20), 0, PRODUCT),
    ("cells PBMC 1000 distances", (cell_distances, "PBMC", 1000), USUAL, PRODUCT),
    ("cells PBMC 600 unbalanced", (cells, "PBMC", 600, 20), USUAL, FREE),
    ("shapes 0 1", (shapes, 0, 1), USUAL, {}),
    ("shapes 2 3", (shapes, 2, 3), USUAL, PRODUCT),
    ("shapes 4 5 small", (shapes, 4, 5), SMALL, PRODUCT),
    ("shapes 6 7 float64", (shapes, 6, 7), SMALL, PGD64),
    ("shapes 8 9 exact", (shapes, 8, 9), 0, PRODUCT),
    ("shapes 10 11 exact auto", (shapes, 10, 11), 0, {}),
    ("shapes 12 13 kl", (shapes, 12, 13), WIDE, {**PRODUCT, "loss": "kl"}),
    ("shapes 14 15 semirelaxed", (shapes, 14, 15), USUAL, SEMI),
    ("shapes 16 17 partial", (shapes, 16, 17), USUAL, PARTIAL),
    ("shapes 18 19 unbalanced", (shapes, 18, 19), USUAL, FREE),
    ("graphs 0 1", (graphs, 0, 1), USUAL, {}),
    ("graphs 2 3 exact", (graphs, 2, 3), 0, {}),
    ("graphs 4 5 float64", (graphs, 4, 5), WIDE, PGD64),
    ("graphs 6 7 semirelaxed", (graphs, 6, 7), USUAL, SEMI),
    ("tissue", (tissue,), USUAL, {"alpha": 0.5}),
    ("tissue product", (tissue,), USUAL, {**PRODUCT, "alpha": 0.1}),
    ("tissue exact", (tissue,), 0, {**PRODUCT, "alpha": 0.1}),
    ("tissue partial", (tissue,), USUAL, {**PARTIAL, "alpha": 0.1}),
    ("tissue semirelaxed", (tissue,), USUAL, {**SEMI, "alpha": 0.5}),
    ("points 200", (points, 200), USUAL, {}),
    ("points 500 small", (points, 500), SMALL, PRODUCT),
    ("points 1200", (points, 1200), USUAL, PRODUCT),
    ("points 1200 least", (points, 1200), LEAST, PRODUCT),
    ("points 1000 float64", (points, 1000), SMALL, PGD64),
    ("points 300 ppa", (points, 300), WIDE, {"method": "ppa", "max_iter": 200}),
    ("points 300 bapg", (points, 300), WIDE, {"method": "bapg", "max_iter": 300}),
    ("points 400 semirelaxed", (points, 400), USUAL, SEMI),
    ("points 400 partial", (points, 400), USUAL, PARTIAL),
    ("points 400 unbalanced", (points, 400), USUAL, FREE),
    ("points 800 exact", (points, 800), 0, PRODUCT),
    ("clouds 1000", (clouds, 1000), USUAL, {}),
    ("clouds 3000 product", (clouds, 3000), USUAL, PRODUCT),
    ("clouds 2000 fused", (fused_clouds, 2000), USUAL, PRODUCT),
    ("clouds 2000 fused unbalanced", (fused_clouds, 2000), USUAL, FREE),
    ("clouds 2000 semirelaxed", (clouds, 2000), USUAL, SEMI),
    ("clouds 2000 partial", (clouds, 2000), USUAL, PARTIAL),
    ("clouds 2000 unbalanced", (clouds, 2000), USUAL, FREE),
    ("clouds 700 float64", (clouds, 700), USUAL, {**PGD64, "dense": True}),
]  # fmt: skip
# Most iterations creep past saddles: which problem takes how many is a matter of
# rounding, and only their sum says something.
PROBLEMS += [
    (f"plateaus {name} {k} {epsilon:g}", (cells, name, n, k), epsilon,
     {**PGD64, "tol": 3e-8, "marginal_tol": 1e-8})
    for name, n in (("scGEM", 177), ("PBMC", 700))
    for k in (10, 20, 35, 50, 80, 110)
    for epsilon in (2.5e-3, 5e-4, 2.5e-4)
]  # fmt: skip


# Options of a problem, not of how to solve it.
TERMS = "loss", "linear_cost", "alpha", "marginals", "mass", "rho"


def parts(name):
    """The problem of that name: its two spaces, and arguments for its terms and for the solver.

    Raises
    ------
    FileNotFoundError
        If its data are not there.
    """
    import gwfast

    (make, *given), epsilon, how = next(rest for known, *rest in PROBLEMS if known == name)
    sides, how = make(*given), dict(how)
    if how.pop("dense", False):
        sides = [side.to_dense().matrix for side in sides]
    if len(sides) == 3:
        how["linear_cost"] = sides.pop()
    if isinstance(epsilon, str):
        epsilon = gwfast.Epsilon(relative=float(epsilon.rstrip("%")) / 100)
    terms = {term: how.pop(term) for term in TERMS if term in how}
    return sides, solver_arguments(**terms), solver_arguments(epsilon=epsilon, **how)


def solver(name):
    """A function that solves the problem of that name once, and returns the
    `GWResult`; see `parts`.
    """
    import gwfast

    sides, terms, how = parts(name)
    return functools.partial(gwfast.gromov_wasserstein, *sides, **terms, **how)
