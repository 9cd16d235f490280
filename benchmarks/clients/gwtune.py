"""GWTune: epsilons and random starts, of which the lowest objective is kept.

It is on GitHub alone, so the calls of its loop are written out here, with settings like
its tutorial's, but for Optuna: epsilons are drawn at random. What a user has
in place of its `gw_alignment` is ``gwfast.tune_epsilon``, and a last solve without
entropy; or, with the search as before, POT's function of its loop from ``gwfast.pot``.
"""

import warnings

import numpy as np
import ot
from scipy.spatial.distance import cdist

import gwfast
from gwfast import pot

from .rows import compared, quadratic

NAME, INSTALL, LINES = "GWTune", "", 2
MAX_ITER = 200
QUALITY = "top-1 matching"


def rows(repeats):
    # Epsilons, and trials: POT takes long where epsilon is small beside the costs.
    problems = (
        ("colors, 93 points", colors(93), (0.02, 0.2), 30),
        ("objects, 60 points", objects(60), (1.0, 10.0), 4),
        ("two ropes, 100 points", ropes(100), (0.1, 1.0), 10),
    )
    for name, *problem in problems:
        yield row(name, *problem, tuned, repeats)
    name, *problem = problems[0]
    yield row(f"{name}, by its own search", *problem, same_search, repeats)


def row(problem, costs, limits, trials, ours, repeats):
    """Costs of points that are in the same order on both sides."""
    return compared(
        problem,
        lambda: search(costs, limits, loop, trials),
        lambda: ours(costs, limits, trials),
        lambda plan: quadratic(plan, *costs),
        QUALITY,
        lambda plan: np.mean(plan.argmax(axis=1) == np.arange(len(plan))),
        repeats,
    )


def search(costs, limits, solve, trials):
    """The plan with the lowest objective over epsilons and starts."""
    rng, best = np.random.default_rng(0), (np.inf, None)
    shape = tuple(map(len, costs))
    for _ in range(trials):
        epsilon = np.exp(rng.uniform(*np.log(limits)))
        plan = solve(*costs, random_plan(rng, shape), epsilon)
        value = quadratic(plan, *costs)
        # Where kernels underflow nothing is left of a plan; such trials are pruned.
        if plan.sum() > 0.99 and value < best[0]:
            best = value, plan
    return best[1]


def random_plan(rng, shape):
    """Positive entries, scaled to uniform masses."""
    plan = rng.random(shape)
    for _ in range(100):
        plan /= plan.sum(axis=1, keepdims=True) * shape[0]
        plan /= plan.sum(axis=0) * shape[1]
    return plan


def loop(C1, C2, plan, epsilon):
    """GWTune's calls of POT."""
    p, q = (ot.unif(len(cost)) for cost in (C1, C2))
    terms = ot.gromov.init_matrix(C1, C2, p, q, loss_fun="square_loss")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in range(MAX_ITER):
            before, gradient = plan, ot.gromov.gwggrad(*terms, plan)
            plan = ot.bregman.sinkhorn(p, q, gradient, epsilon, numItermax=1000)
            if step % 10 == 0 and np.linalg.norm(plan - before) <= 1e-9:
                break
    return plan


def same_search(costs, limits, trials):
    """GWTune's search with `gwfast.pot` in place of its loop."""

    def solve(C1, C2, plan, epsilon):
        return pot.entropic_gromov_wasserstein(C1, C2, epsilon=epsilon, G0=plan, max_iter=MAX_ITER)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gwfast.ConvergenceWarning)
        return search(costs, limits, solve, trials)


def tuned(costs, limits, _):
    """What is in place of `gw_alignment`; GWTune's epsilon is twice ours."""
    epsilons = np.geomspace(*limits, 8) / 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gwfast.ConvergenceWarning)
        plan = gwfast.tune_epsilon(*costs, epsilons=epsilons).plan
        return gwfast.gromov_wasserstein(*costs, epsilon=0, init=plan).plan


def colors(n, seed=0):
    """How different two groups of people find colors, from 0 to about 1."""
    rng = np.random.default_rng(seed)
    hue, shade = rng.uniform(0, 2 * np.pi, n), rng.beta(2, 3, (2, n))
    places = np.stack([shade[0] * np.cos(hue), shade[0] * np.sin(hue), shade[1]])
    return [judged(rng, 1.5 * places.T, 0.05) for _ in range(2)]


def judged(rng, places, noise):
    """Distances that saturate, as noisy judgments of them do."""
    found = 1 - np.exp(-cdist(places, places))
    found += noise * rng.standard_normal(found.shape)
    found = (found + found.T) / 2
    np.fill_diagonal(found, 0)
    return found.clip(0)


def objects(n, seed=0):
    """Distances of objects in two embeddings, as THINGS has."""
    rng = np.random.default_rng(seed)
    known = rng.gamma(0.3, 1.0, (n, 50)) * np.geomspace(8, 1, 50)
    noisy = [known * rng.lognormal(0, 0.15, known.shape) for _ in range(2)]
    return [cdist(one, one) for one in noisy]


def ropes(n):
    """Distances of points along two ropes, one of which is wound unevenly."""
    turn = np.linspace(0, 6 * np.pi, n)
    wound = 1 + 0.3 * turn / (2 * np.pi)
    sides = []
    for radius in (wound, wound + np.sin(turn / (2 * np.pi))):
        sides.append(np.stack([radius * np.sin(turn), radius * np.cos(turn)], axis=1))
        sides[-1] = np.column_stack([sides[-1], turn / (2 * np.pi)])
    return [cdist(one, one) for one in sides]
