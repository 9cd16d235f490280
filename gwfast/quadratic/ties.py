"""Which of several vertices that are equally good conditional gradient goes to first.

From the product plan the costs of the first linear program are products of two numbers,
one a point: how far it is from all others. Where some of these are equal, as those of
hop distances, so are many vertices, to first order. To second order they are not:
towards the plan ``p q' + D`` the objective falls fastest where D is the product of an
eigenvector of the one space's costs, which are centered, with one of the other's. Both
signs of it are as good, mirror images, which only further steps tell apart: the signs
of several such products are changed one after another, and kept where the end is lower.
"""

import numpy as np
from scipy.linalg import lapack

from ..kernels.threads import single_threaded_blas

# Eigenvectors of either space, each of which makes another descent. On hop distances
# (48 pairs of 300 cells, 84 of other graphs) losses are by mean 1.00 and 1.02 of POT's
# with none, .949 and .965 with 2, .944 and .962 with 4, .945 and .959 with 5; all 16
# choices of the signs of 4 end at .943 and .953.
N_DIRECTIONS = 4
# Factor of the products of eigenvectors that are added to the product plan. With a third
# or a tenth of it ends are .2 % higher.
TURNED = 10.0
# Multiplications of the products of one step, times which eigenvectors may take.
MOST_STEPS = 10
# Rounding of costs, as a fraction of the largest.
ROUNDING = 1e-12


def break_ties(steps, x, y, found, max_outer, options, work, late):
    """Turn `FrankWolfe` at the product plan of two `Side` to the vertex, of those that are equally
    good, from which it ends lowest: see `FrankWolfe.break_ties`. `found` are its `directions`.
    """
    sizes, *vectors = found
    if len(sizes):
        given = sizes, *vectors, _largest(x, y), ROUNDING
        steps.break_ties(*given, max_outer, late, *options, work)


def directions(steps, x, y):
    """Where the objective falls from the product plan of `FrankWolfe` to second order,
    the steepest first: towards products of unit eigenvectors of the matrices that
    masses center and weigh.

    Returns
    -------
    sizes : (k,) ndarray
        How steeply.
    of_rows, of_cols : (k, n) and (k, m) ndarray
    """
    with single_threaded_blas(max(steps.n, steps.m)):
        pairs = [_leading(matrix, N_DIRECTIONS) for matrix in steps.centered()]
    (of_rows, left), (of_cols, right) = pairs
    k = min(len(of_rows), len(of_cols))
    sizes = np.maximum(of_rows[:k], 0.0) * np.maximum(of_cols[:k], 0.0)
    sizes = sizes[sizes > ROUNDING * _largest(x, y)]
    k = len(sizes)
    return sizes, left[:k], right[:k]


def turns(side, number, n_directions):
    """Leading eigenvectors (k, n) of one `Side`, the first or the second, in units in
    which a product of two of them, one a side, changes the product plan by `TURNED`.
    """
    root = np.sqrt(side.masses)
    matrix = side.values if number == 0 else -side.values
    matrix = matrix - matrix @ side.masses[:, None]
    matrix = (matrix - side.masses @ matrix) * np.multiply.outer(root, root)
    sizes, vectors = _leading(matrix, n_directions)
    kept = sizes > ROUNDING * side.largest * side.masses.sum()
    sizes, vectors = sizes[kept], vectors[kept]
    return np.sqrt(TURNED * sizes / sizes[:1])[:, None] * vectors / root


def _leading(matrix, most):
    """The largest eigenvalues of a matrix, which is overwritten, and eigenvectors."""
    n = len(matrix)
    kept = min(most, n)
    # LAPACK's own, as checks take longer than few points do.
    values, vectors, *_ = lapack.dsyevr(
        matrix.T, range="I", il=n - kept + 1, iu=n, lower=1, overwrite_a=1
    )
    return values[:kept][::-1], vectors.T[:kept][::-1]


def is_cheap(x, y):
    """Whether eigenvectors of both sides take no longer than some steps, which they do
    where one has many more points.
    """
    n, m = len(x.masses), len(y.masses)
    return max(n, m) ** 3 <= MOST_STEPS * n * m * (n + m)


def _largest(x, y):
    """No entry of the gradient is larger."""
    return x.largest * y.largest * x.masses.sum()


def may_tie(x, y):
    """Whether the first linear program from the product plan of two `Side` has several
    solutions: whether points of one of them are equally far from all others. No, if
    eigenvectors would take too long to choose by.
    """
    if not is_cheap(x, y):
        return False
    return any(has_ties(side.values, side.masses, side.largest) for side in (x, y))


def has_ties(values, masses, largest):
    """Whether points are equally far from all others, by symmetric values of which
    this is the largest.
    """
    means = np.sort(values @ masses)
    return bool((means[1:] - means[:-1] <= ROUNDING * largest * masses.sum()).any())
