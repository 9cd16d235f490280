"""The problems: words, rotated clouds and slices of tissue, of any size."""

import dataclasses

import numpy as np
from scipy.spatial import cKDTree

import gwfast

from ..common import clouds, tissue
from ..common.settings import solver_arguments
from ..solvers import problems

# A match is right within so many spots of the true place, of which each has as much
# room as the nearest so many have on average.
NEAR, NEAREST = 2.0, 10


@dataclasses.dataclass(frozen=True)
class Case:
    """Two spaces, what is between them, and which matches are right.

    Attributes
    ----------
    name : str
    sides : tuple of (n, d) and (m, e) ndarrays
        Points, whose costs have the `metric`.
    right : callable
        ``right(best)`` is the share of rows whose best column is right.
    metric : str
    features : tuple of (n, k) and (m, k) ndarrays, or None
        Those of a fused problem, in which the quadratic term has the weight `alpha`.
    alpha : float or None
    raw : tuple of ndarrays, or None
        Vectors as they were read, for `gwfast.align`.
    """

    name: str
    sides: tuple
    right: callable
    metric: str = "cosine"
    features: tuple | None = None
    alpha: float | None = None
    raw: tuple | None = None

    @property
    def operations(self):
        """Floating-point operations of a product of all points with one another."""
        n, m = map(len, self.sides)
        rank = self.sides[0].shape[1]
        if self.features is not None:
            rank += self.features[0].shape[1]
        return 2.0 * n * m * rank

    def problem(self):
        spaces = (gwfast.PointCloud(side, self.metric) for side in self.sides)
        terms = {}
        if self.features is not None:
            terms = {"linear_cost": gwfast.CrossCost(*self.features)}
            terms["alpha"] = self.alpha
        return gwfast.QuadraticProblem(*spaces, **terms)

    def solve(self, **settings):
        """Return the `GWResult`, from the arrays."""
        given = solver_arguments(**settings)
        if self.raw is None or "max_iter" in given:
            return gwfast.gromov_wasserstein(self.problem(), **given)
        return gwfast.align(*self.raw, n_words=len(self.sides[0]), **given).gw


def word_case(n):
    """The most frequent words of two languages, as they were read; right is P@1."""
    made = problems.word_problem("es-fr", n, 0.0)
    name = made.name.partition(", epsilon")[0]
    return Case(f"words {name}", made.points, made.right, raw=made.raw)


def cloud_case(n, d=clouds.DIMENSIONS, synthetic=False):
    """A cloud and its noisy rotation."""
    name, x, y, truth = clouds.pair_of_clouds(n, d=d, synthetic=synthetic)
    name = f"{name}, {n} x {n} x {x.shape[1]}"
    return Case(name, (x, y), lambda best: np.mean(best == truth))


def tissue_case(n, alpha=0.5):
    """Two slices of a tissue: spots with coordinates and features. Coordinates and
    features are scaled such that the costs of every kind have a mean of one, as
    ``scale_cost="mean"`` does in moscot.
    """
    first, second, places = tissue.two_slices(n, seed=0)
    radii = cKDTree(second.spots).query(second.spots, [NEAREST + 1])[0]
    spacing = np.median(radii) * (np.pi / NEAREST) ** 0.5

    def right(best):
        apart = np.linalg.norm(second.spots[best] - places, axis=1)
        return np.mean(apart < NEAR * spacing)

    # Float32 wants coordinates about zero; moscot, too, moves them there.
    spots = [one.spots - one.spots.mean(axis=0) for one in (first, second)]
    sides = [one / mean_square(one, one) ** 0.5 for one in spots]
    center = (first.features.mean(axis=0) + second.features.mean(axis=0)) / 2
    features = [one.features - center for one in (first, second)]
    size = mean_square(*features) ** 0.5
    n, m = map(len, sides)
    return Case(
        f"tissue, {n} x {m} spots, {first.features.shape[1]} features",
        tuple(sides),
        right,
        metric="sqeuclidean",
        features=tuple(one / size for one in features),
        alpha=alpha,
    )


def mean_square(x, y):
    """Mean squared distance of all pairs of a point of one and a point of the other."""
    squares = sum(np.square(one).sum(axis=1).mean() for one in (x, y))
    return squares - 2 * x.mean(axis=0) @ y.mean(axis=0)


CASES = {"words": word_case, "clouds": cloud_case, "tissue": tissue_case}


def make(kind, **options):
    return CASES[kind](**options)
