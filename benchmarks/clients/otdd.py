"""OTDD (Alvarez-Melis and Fusi, NeurIPS 2020): distances between data sets with labels,
here of different features.

It is on GitHub alone; what `IncomparableDatasetDistance.distance` does is written out
here: costs of pairs of samples are half of the squared distance of their features and
that of their labels' Gaussians (Bures), scaled, and the distance is POT's.
"""

import warnings

import numpy as np
import ot

from gwfast import pot

from ..common import pairs
from .rows import SOLVER, compared, quadratic

NAME, INSTALL, LINES = "otdd", "POT torch", 1
# Cells of scGEM, its `entreg`, and its `precision`; single is its default, in which
# POT never gets to its tolerance: it takes as long however few cells there are.
PROBLEMS = ((50, 0.1, "single"), (177, 0.05, "double"), (177, 0.01, "double"))
QUALITY = "mass between cells of one type"


def rows(repeats):
    x, y, *types = pairs.cells("scGEM")
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(side)) for side in (x, y)]
    for n, epsilon, precision in PROBLEMS:
        kept = [order[:n] for order in orders]
        labels = [side[rows] for side, rows in zip(types, kept, strict=True)]
        samples = [side[rows] for side, rows in zip((x, y), kept, strict=True)]
        alike = np.equal.outer(*labels)
        data = list(zip(samples, labels, strict=True))

        def theirs(data=data, options=(epsilon, precision)):
            return distance(*data, *options)

        def ours(theirs=theirs):
            pot.patch()
            try:
                return theirs()
            finally:
                pot.unpatch()

        yield compared(
            f"{n} cells, entreg={epsilon:g}, {precision}",
            theirs,
            ours,
            lambda found: quadratic(*found),
            QUALITY,
            lambda found, alike=alike: found[0][alike].sum(),
            repeats,
        )


def distance(source, target, epsilon, precision):
    """The plan whose cost is the distance, and both scaled costs."""
    import torch

    costs = [within(*one) for one in (source, target)]
    dtype = {"single": torch.float32, "double": torch.float64}[precision]
    C1, C2 = (torch.as_tensor((one - one.min()) / one.max(), dtype=dtype) for one in costs)
    p, q = (torch.ones(len(one), dtype=dtype) / len(one) for one in costs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan, _ = SOLVER.timed(ot.gromov.entropic_gromov_wasserstein)(
            C1, C2, p, q, loss_fun="square_loss", epsilon=epsilon, log=True
        )
    return plan.numpy(), C1.numpy(), C2.numpy()


def within(samples, labels):
    """Costs between all samples of a data set."""
    names, own = np.unique(labels, return_inverse=True)
    groups = [samples[own == k] for k in range(len(names))]
    means = np.array([group.mean(axis=0) for group in groups])
    roots = [root(np.atleast_2d(np.cov(group.T))) for group in groups]
    between = squared(means)
    for i, one in enumerate(roots):
        for j, other in enumerate(roots):
            # The trace of the root of one^2 other^2 one^2's middle factor.
            inner = np.linalg.svd(one @ other, compute_uv=False).sum()
            between[i, j] += (one**2).sum() + (other**2).sum() - 2 * inner
    return (squared(samples) + between[np.ix_(own, own)]) / 2


def squared(points):
    return ot.dist(points, points)


def root(matrix):
    """The symmetric root of a covariance."""
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(values.clip(0)) @ vectors.T
