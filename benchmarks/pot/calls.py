"""A call as SCOT and most scripts make it, of either module, and what came of it."""

import warnings

import numpy as np

OURS = "gwfast.pot"


def solved(module, costs, epsilon, **options):
    """Plan and log, with uniform weights and the square loss."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p, q = (np.full(len(cost), 1 / len(cost)) for cost in costs)
        return module.entropic_gromov_wasserstein(
            *costs, p, q, "square_loss", epsilon=epsilon, log=True, **options
        )


def marginal_error(plan):
    n, m = plan.shape
    rows = np.abs(plan.sum(axis=1) - 1 / n).sum()
    return float(rows + np.abs(plan.sum(axis=0) - 1 / m).sum())
