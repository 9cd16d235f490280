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
from ..utils.deadline import OutOfTime

# Eigenvectors of either space, each of which makes another descent. On hop distances
# (48 pairs of 300 cells, 84 of other graphs) losses are by mean 1.00 and 1.02 of POT's
# with none, .949 and .965 with 2, .944 and .962 with 4, .945 and .959 with 5; all 16
# choices of the signs of 4 end at .943 and .953.
N_DIRECTIONS = 4
# Rounding of costs, as a fraction of the largest.
ROUNDING = 1e-12


def break_ties(steps, begin, sides, descend, rounding):
    """Turn `FrankWolfe` at the product plan to the vertex, of those that are equally
    good, from which it ends lowest.

    Parameters
    ----------
    steps : FrankWolfe
    begin : callable
        Puts them there.
    sides : tuple of Side
    descend : callable
        Makes the steps; OutOfTime ends the search.
    rounding : float
        Of objectives. Of vertices that differ by less the first counts, as of mirror
        images of symmetric spaces.
    """
    gradient, seen, best, least = np.array(steps.gradient), [], None, np.inf
    scale = ROUNDING * _scale(*sides)
    of_rows, of_cols = _directions(*sides)
    signs = np.ones(of_rows.shape[1])
    try:
        for trial in range(len(signs) + 1 if len(signs) else 0):
            others = signs.copy()
            others[:trial][-1:] *= -1
            secondary = np.einsum("ik,jk->ij", of_rows * others, of_cols)
            begin()
            steps.turn_to(gradient)
            costs = _on_face(gradient, steps.potentials(), secondary, scale)
            steps.turn_to(*costs)
            steps.advance(1)
            if any(abs(steps.value - value) <= rounding for value in seen):
                continue
            seen.append(steps.value)
            descend()
            if steps.value < least - rounding:
                signs, best, least = others, costs, steps.value
    except OutOfTime:
        pass
    begin()
    if best is not None:
        steps.turn_to(gradient)
        steps.turn_to(*best)


def may_tie(x, y):
    """Whether the first linear program from the product plan of two `Side` has several
    solutions: whether points of one of them are equally far from all others.
    """
    return any(
        np.diff(np.sort(side.values @ side.masses)).min(initial=np.inf)
        <= ROUNDING * side.largest * side.masses.sum()
        for side in (x, y)
    )


def _directions(x, y):
    """What eigenvectors of both spaces give to each point, (n, k) and (m, k): the
    products of two columns are costs by which the objective falls to second order, the
    steepest first. Columns of the first are scaled to what they are worth.
    """
    (sizes, of_rows), (others, of_cols) = _eigenvectors(x, 1), _eigenvectors(y, -1)
    k = min(len(sizes), len(others))
    weights = sizes[:k] * others[:k]
    some = weights > ROUNDING * _scale(x, y)
    return (of_rows[:, :k] * weights)[:, some], of_cols[:, :k][:, some]


def _eigenvectors(side, sign):
    """The largest eigenvalues of ``sign`` times the values, which masses center and
    weigh, nothing below zero, and eigenvectors by point, the largest first.
    """
    roots = np.sqrt(side.masses)
    weights = side.masses / side.masses.sum()
    mean = side.values @ weights
    centered = side.values - mean - mean[:, None] + weights @ mean
    centered *= sign * roots * roots[:, None]
    n = len(roots)
    kept = min(N_DIRECTIONS, n)
    with single_threaded_blas(n):
        # LAPACK's own, as checks take longer than few points do.
        values, vectors, *_ = lapack.dsyevr(
            centered, range="I", il=n - kept + 1, iu=n, lower=1, overwrite_a=1
        )
    values, vectors = values[:kept], vectors[:, :kept]
    # The sign of an eigenvector is that of its largest entry.
    peaks = np.abs(vectors).argmax(axis=0)
    vectors *= np.sign(vectors[peaks, np.arange(kept)])
    vectors /= roots[:, None]
    return np.maximum(values[::-1], 0.0), vectors[:, ::-1]


def _scale(x, y):
    """No entry of the gradient is larger."""
    return x.largest * y.largest * x.masses.sum()


def _on_face(cost, potentials, secondary, rounding):
    """Secondary costs on the optimal face of a linear program, infinity elsewhere; and
    the tolerance that goes with them.
    """
    rows, cols = potentials
    off = cost - rows[:, None] - cols > rounding
    return np.where(off, np.inf, secondary), ROUNDING * np.abs(secondary).max()
