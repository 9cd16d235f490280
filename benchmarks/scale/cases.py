"""The problems: words, rotated clouds and slices of tissue, of any size."""

from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

import gwfast

from ..common import simulated
from ..common.problems import solver_arguments
from ..report import contenders


class Case(NamedTuple):
    """A problem, and which matches are right.

    Attributes
    ----------
    name : str
    problem : QuadraticProblem
    rank : int
        Columns of the points, and of the features of a fused problem.
    right : callable
        Maps the best column of each row to the share of rows with a right match.
    raw : tuple of ndarrays, or None
        Vectors as they were read, for `gwfast.align`.
    arrays : tuple of ndarrays
        Points and features of a fused problem, for OTT-JAX.
    """

    name: str
    problem: Any
    rank: int
    right: Any
    raw: tuple | None = None
    arrays: tuple = ()

    def solve(self, **settings):
        """Return the `GWResult`, from the arrays."""
        arguments = solver_arguments(**settings)
        if self.raw is None:
            return gwfast.gromov_wasserstein(self.problem, **arguments)
        return gwfast.align(*self.raw, n_words=self.problem.shape[0], **arguments).gw


def words(n):
    """Return the most frequent words of two languages, as they were read; right is P@1."""
    words = contenders.words("es-fr", n, 0.0)
    return Case(words.name, words.quadratic, words.x.points.shape[1], words.right, words.raw)


def clouds(n, d=100, synthetic=False):
    """Return a cloud and its noisy rotation."""
    name, x, y, truth = simulated.pair_of_clouds(n, d, synthetic)
    problem = gwfast.QuadraticProblem(gwfast.PointCloud(x), gwfast.PointCloud(y))
    name = f"{name}, {n} x {n} x {x.shape[1]}"
    return Case(name, problem, x.shape[1], lambda best: np.mean(best == truth))


def tissue(n, alpha=0.5):
    """Return a fused problem of two slices of a tissue, coordinates and features scaled such that
    the costs of every kind have a mean of one, as ``scale_cost="mean"`` does in moscot.
    """
    first, second, places = simulated.two_slices(n)
    # A match is right within two spots of its place; ten spots take the area of ten neighbors.
    spacing = np.median(cKDTree(second.spots).query(second.spots, [11])[0]) * (np.pi / 10) ** 0.5

    def right(best):
        return np.mean(np.linalg.norm(second.spots[best] - places, axis=1) < 2 * spacing)

    # Float32 wants coordinates about zero; moscot, too, moves them there.
    spots = [side.spots - side.spots.mean(axis=0) for side in (first, second)]
    sides = [side / mean_square(side, side) ** 0.5 for side in spots]
    center = (first.features.mean(axis=0) + second.features.mean(axis=0)) / 2
    features = [side.features - center for side in (first, second)]
    features = [side / mean_square(*features) ** 0.5 for side in features]
    problem = gwfast.QuadraticProblem(
        *(gwfast.PointCloud(side, "sqeuclidean") for side in sides),
        linear_cost=gwfast.CrossCost(*features),
        alpha=alpha,
    )
    name = f"fused slices, {len(sides[0])} x {len(sides[1])} spots"
    rank = sides[0].shape[1] + features[0].shape[1]
    return Case(name, problem, rank, right, arrays=(*sides, *features))


def mean_square(x, y):
    """Return the mean squared distance of a point of `x` and a point of `y`."""
    squares = sum(np.square(side).sum(axis=1).mean() for side in (x, y))
    return squares - 2 * x.mean(axis=0) @ y.mean(axis=0)


CASES = {"words": words, "clouds": clouds, "tissue": tissue}
