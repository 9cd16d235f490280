"""KL-unbalanced problems in either module, with points on one side that the other
lacks.
"""

import warnings
from statistics import median

import numpy as np
from scipy.spatial.distance import cdist

from ..common.markdown import show
from .calls import OURS
from .timings import in_turns, scaled

# Points a side, the price of missing marginals, epsilon.
PROBLEMS = ((300, 1.0, 0.05), (300, 0.3, 0.02), (1000, 1.0, 0.05), (1000, 0.3, 0.02))
LIMITS = {"max_iter": 100, "tol": 1e-7}
HEADS = (
    "points", "rho", "epsilon", "ms, POT, median [min]", f"ms, {OURS}, median [min]",
    "ratio", "turns", "cost, POT", "relative difference", "mass, POT", f"mass, {OURS}",
)  # fmt: skip


def unbalanced_table(pot, ours):
    """Four fifths of the points have a match, the others are far away."""
    rows = [compared(pot, ours, *problem) for problem in PROBLEMS]
    show("unbalanced, a fifth of the points without a match", HEADS, rows)


def compared(pot, ours, n, rho, epsilon):
    """A row of both modules' times and results."""
    points = np.random.default_rng(n).standard_exponential((n, 3)) * (1, 2, 3)
    others = np.vstack([points[: n - n // 5], points[: n // 5] + 20])
    costs = [scaled(cdist(some, some)) for some in (points, others)]
    options = dict(reg_marginals=rho, epsilon=epsilon, log=True, **LIMITS)

    def call(module):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return module.fused_unbalanced_gromov_wasserstein(*costs, **options)

    seconds, results = in_turns(
        [lambda module=module: call(module) for module in (pot, ours)]
    )
    middle = [median(some) for some in seconds]
    row = [str(n), f"{rho:g}", f"{epsilon:g}"]
    row += [
        f"{1e3 * value:.3g} [{1e3 * min(some):.3g}]"
        for value, some in zip(middle, seconds, strict=True)
    ]
    row += [f"{middle[0] / middle[1]:.2f}", str(len(seconds[0]))]
    one, other = (float(log["fugw_cost"]) for *_, log in results)
    row += [f"{one:.8g}", f"{abs(other / one - 1):.1e}"]
    return row + [f"{plan.sum():.6g}" for plan, *_ in results]
