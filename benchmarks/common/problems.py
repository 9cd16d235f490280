"""The list of problems. A line in `PROBLEMS` adds one: its name, whose first word is a class, how
its spaces are made, epsilon, and settings of `gwfast.gromov_wasserstein`, flat.

Spaces are made from ``../shared/data`` or from seeds. An epsilon in percent is relative to the
objective of the product plan, as in ``Epsilon(relative=...)``; a number is absolute.
"""

import functools

import numpy as np
from scipy.spatial.distance import cdist

from . import data, simulated
from .simulated import points


def solver_arguments(**settings):
    """Return the arguments of a solver for flat settings: rare ones go into `options`, and a `mass`
    or a `rho` into `marginals`. Trees from before `SolverOptions` take flat settings.
    """
    import gwfast

    if not hasattr(gwfast, "SolverOptions"):
        if "max_iter" in settings:
            settings["max_outer"] = settings.pop("max_iter")
        return settings
    for name, rule in (("mass", gwfast.Partial), ("rho", gwfast.Unbalanced)):
        if name in settings:
            settings["marginals"] = rule(settings.pop(name))
    rare = gwfast.SolverOptions.__dataclass_fields__.keys() & settings.keys()
    options = gwfast.SolverOptions(**{name: settings.pop(name) for name in rare})
    return settings | {"options": options} if rare else settings


# --- Spaces ---------------------------------------------------------------------------


def normalized(x):
    """Return rows of unit length, centered, of unit length again."""
    x = x.astype(np.float64)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x -= x.mean(axis=0)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def vectors(pair, n):
    """Return the vectors of the most frequent words of two languages."""
    x, y, _ = data.language_pair(pair)
    return [normalized(side.vectors)[:n] for side in (x, y)]


def words(pair, n):
    """Return point clouds of words."""
    import gwfast

    return [gwfast.PointCloud(side) for side in vectors(pair, n)]


def word_graphs(pair, n):
    """Return shortest paths along nearest neighbors of words."""
    return [data.shortest_paths(side) for side in vectors(pair, n)]


def cells(name, n, k):
    """Return hops along nearest neighbors of cells."""
    return [data.hops(_drawn(side, n), k) for side in data.cells(name)[:2]]


def cell_distances(name, n):
    """Return Euclidean distances of cells, at most one."""
    sides = (_drawn(side, n) for side in data.cells(name)[:2])
    return [cost / cost.max() for cost in (cdist(side, side) for side in sides)]


def shapes(first, second):
    """Return distances between 50 to 100 points of two curves."""
    spaces = simulated.curves(max(first, second) + 1)
    return [spaces[first] / spaces[first].max(), spaces[second] / spaces[second].max()]


def graphs(first, second):
    """Return steps between the 12 to 29 nodes of two random graphs."""
    spaces = simulated.graphs(max(first, second) + 1)
    return [spaces[first], spaces[second]]


def clouds(n, d=50, noise=0.3):
    """Return point clouds with a spectrum like a language's, and a rotated, noisy copy."""
    x, y, _ = _rotated(n, d, noise)
    return [x, y]


def fused_clouds(n, d=50, noise=0.3, k=10):
    """Return the same, and noisy features that points and their copies have in common."""
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
    """Return distances between the spots of two slices, and a linear cost of their genes."""
    slices = data.slices()
    costs = [cdist(side["xy"], side["xy"]) for side in slices]
    genes = [data.log_normalized(side["counts"], side["total"]) for side in slices]
    linear = cdist(*genes, "sqeuclidean")
    return [*(cost / cost.max() for cost in costs), linear / linear.max()]


def _drawn(side, n):
    return side[np.sort(np.random.default_rng(0).permutation(len(side))[:n])]


# --- The list -------------------------------------------------------------------------

PRODUCT = {"init": "product"}
WIDE, USUAL, SMALL, LEAST = "5%", "1.75%", "0.5%", "0.1%"
PGD64 = {**PRODUCT, "dtype": "float64"}
TIGHT = {**PGD64, "tol": 3e-8, "marginal_tol": 1e-8}
SEMI = {**PRODUCT, "marginals": "semirelaxed"}
PARTIAL = {**PRODUCT, "marginals": "partial", "mass": 0.7}
FREE = {**PRODUCT, "marginals": "unbalanced", "rho": 0.1}

# Name, how the spaces are made, epsilon, other settings.
PROBLEMS = [
    ("words es-en 600", (words, "es-en", 600), USUAL, {}),
    ("words es-en 1000", (words, "es-en", 1000), USUAL, {}),
    ("words es-en 2000", (words, "es-en", 2000), USUAL, {}),
    ("words es-en 2000 product", (words, "es-en", 2000), USUAL, PRODUCT),
    ("words es-en 2000 small", (words, "es-en", 2000), SMALL, PRODUCT),
    ("words es-fr 2000", (words, "es-fr", 2000), USUAL, {}),
    ("words es-fr 5000 product", (words, "es-fr", 5000), USUAL, PRODUCT),
    ("words es-fr 12000", (words, "es-fr", 12_000), USUAL, {}),
    ("words es-fr 1000 tiled", (words, "es-fr", 1000), USUAL, {**PRODUCT, "tier": "tiled"}),
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
    ("graph es-en 700 kl", (word_graphs, "es-en", 700), USUAL, {**PRODUCT, "loss": "kl"}),
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
]
# Most iterations creep past saddles: which problem takes how many is a matter of rounding, and only
# their sum says something.
PROBLEMS += [
    (f"plateaus {name} {k} {epsilon:g}", (cells, name, n, k), epsilon, TIGHT)
    for name, n in (("scGEM", 177), ("PBMC", 700))
    for k in (10, 20, 35, 50, 80, 110)
    for epsilon in (2.5e-3, 5e-4, 2.5e-4)
]

# Settings that belong to a problem, not to the way it is solved.
TERMS = "loss", "linear_cost", "alpha", "marginals", "mass", "rho"


def chosen(words):
    """Return the names of problems with all of these words."""
    return [name for name, *_ in PROBLEMS if {*words} <= {*name.split()}]


def parts(name):
    """Return the spaces of the problem of this name, and arguments for its terms and the solver."""
    import gwfast

    (build, *arguments), epsilon, how = next(rest for known, *rest in PROBLEMS if known == name)
    sides, how = build(*arguments), dict(how)
    if how.pop("dense", False):
        sides = [side.to_dense().matrix for side in sides]
    if len(sides) == 3:
        how["linear_cost"] = sides.pop()
    if isinstance(epsilon, str):
        epsilon = gwfast.Epsilon(relative=float(epsilon.rstrip("%")) / 100)
    terms = {term: how.pop(term) for term in TERMS if term in how}
    return sides, solver_arguments(**terms), solver_arguments(epsilon=epsilon, **how)


def solver(name):
    """Return a function that solves the problem of this name and returns the `GWResult`."""
    import gwfast

    sides, terms, how = parts(name)
    return functools.partial(gwfast.gromov_wasserstein, *sides, **terms, **how)
