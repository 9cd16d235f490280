"""KL-unbalanced problems in either module, in float32, and by ``unbalancedgw`` of its
inventors where that is installed; with points on one side that the other lacks.
"""

import multiprocessing
import warnings
from concurrent.futures import ProcessPoolExecutor
from statistics import median

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import rel_entr

import gwfast

from ..common import settings
from ..common.markdown import show
from .calls import OURS
from .timings import in_turns, scaled

# Points a side, the price of missing marginals, epsilon.
PROBLEMS = ((300, 1.0, 0.05), (300, 0.3, 0.02), (1000, 1.0, 0.05), (1000, 0.3, 0.02))
LIMITS = {"max_iter": 100, "tol": 1e-7}
# Largest change of an entry; the default, 1e-6, is more than entries have.
PEERS_LIMITS = {"tol_plan": 1e-9, "tol_sinkhorn": 1e-9}
SINGLE = "gwfast, float32"
HEADS = (
    "points", "rho", "epsilon", "ms, POT, median [min]", f"ms, {OURS}, median [min]",
    "ratio", f"ms, {SINGLE}, median [min]", "ratio", "ms, unbalancedgw", "turns",
    "objective, POT", f"relative difference, {OURS}", SINGLE, "unbalancedgw",
    "mass, POT", f"mass, {OURS}",
)  # fmt: skip


def unbalanced_table(pot, ours):
    """Four fifths of the points have a match, the others are far away."""
    rows = [compared(pot, ours, *problem) for problem in PROBLEMS]
    show("unbalanced, a fifth of the points without a match", HEADS, rows)


def costs_of(n):
    points = np.random.default_rng(n).standard_exponential((n, 3)) * (1, 2, 3)
    others = np.vstack([points[: n - n // 5], points[: n // 5] + 20])
    return [scaled(cdist(some, some)) for some in (points, others)]


def compared(pot, ours, n, rho, epsilon):
    """A row of times and results."""
    costs = costs_of(n)

    def call(module):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plan, *_ = module.fused_unbalanced_gromov_wasserstein(
                *costs, reg_marginals=rho, epsilon=epsilon, **LIMITS
            )
        return plan

    def in_float32():
        options = dict(marginals=gwfast.Unbalanced(rho), init="product")
        return gwfast.gromov_wasserstein(*costs, epsilon=epsilon, **options).plan

    seconds, plans = in_turns([lambda: call(pot), lambda: call(ours), in_float32])
    found = [objective(plan, costs, rho, epsilon) for plan in plans]
    middle = [median(some) for some in seconds]
    times = [
        f"{1e3 * value:.3g} [{1e3 * min(some):.3g}]"
        for value, some in zip(middle, seconds, strict=True)
    ]
    row = [str(n), f"{rho:g}", f"{epsilon:g}", times[0]]
    for time, value in zip(times[1:], middle[1:], strict=True):
        row += [time, f"{middle[0] / value:.2f}"]
    spent, other = peer(n, rho, epsilon)
    row += [f"{1e3 * spent:.3g}", str(len(seconds[0])), f"{found[0]:.8g}"]
    row += [f"{one / found[0] - 1:.1e}" for one in (*found[1:], other)]
    return row + [f"{plan.sum():.6g}" for plan in plans[:2]]


def objective(plan, costs, rho, epsilon):
    """What all of them minimize, in float64."""
    plan = np.asarray(plan, dtype=np.float64)
    x, y, rows, cols = *costs, plan.sum(axis=1), plan.sum(axis=0)
    value = rows @ x**2 @ rows + cols @ y**2 @ cols - 2 * np.vdot(plan, x @ plan @ y)
    p, q = (np.full(len(cost), 1 / len(cost)) for cost in costs)
    for a, b, price in ((rows, p, rho), (cols, q, rho), (plan, np.outer(p, q), epsilon)):
        mass, given = a.sum(), b.sum()
        divergence = rel_entr(a, b).sum() - mass + given
        value += price * (2 * mass * divergence + (mass - given) ** 2)
    return float(value)


def peer(n, rho, epsilon):
    """Seconds and objective of `unbalancedgw`, NaN without it; in a process of its own,
    as PyTorch's threads wait for work at the expense of others'.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_peer, n, rho, epsilon).result()


def _peer(n, rho, epsilon):
    try:
        import torch
        from unbalancedgw.vanilla_ugw_solver import exp_ugw_sinkhorn
    except ImportError:
        return np.nan, np.nan
    torch.set_num_threads(settings.THREADS)
    costs = costs_of(n)
    masses, x, y = (torch.from_numpy(np.asarray(one)) for one in (np.full(n, 1 / n), *costs))

    def call():
        return exp_ugw_sinkhorn(masses, x, masses, y, eps=epsilon, rho=rho, **PEERS_LIMITS)

    seconds, plans = in_turns([call])
    return median(seconds[0]), objective(plans[0].numpy(), costs, rho, epsilon)
