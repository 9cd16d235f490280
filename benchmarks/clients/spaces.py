"""Programs for spaces of any kind: CAJAL and GWTune."""

import contextlib
import io

import numpy as np
from scipy.spatial.distance import cdist, squareform

import gwfast
from gwfast import pot

from ..common import data, runner
from .rows import Program, compared, quadratic

# --- CAJAL: all pairs of cells --------------------------------------------------------


def cajal(rounds):
    """Compare all pairs of 40 points of each of 30 neurons, drawn twice."""
    from cajal.run_gw import gw_pairwise_parallel

    rng, spaces = np.random.default_rng(0), []
    for cost in data.neurons(30):
        for _ in range(2):
            drawn = rng.permutation(len(cost))[:40]
            spaces.append(np.ascontiguousarray(cost[np.ix_(drawn, drawn)]))
    cells = [(cost, np.full(len(cost), 1 / len(cost))) for cost in spaces]

    def theirs():
        with contextlib.redirect_stderr(io.StringIO()):
            found, plans = gw_pairwise_parallel(cells, runner.THREADS, return_coupling_mats=True)
        return found, [(i, j, plan) for i, j, plan in plans]

    def ours():
        found = gwfast.pairwise_gromov_wasserstein(spaces, plans=True, n_threads=runner.THREADS)
        return squareform(found.distances / 2), [(*pair, x) for pair, x in found.plans.items()]

    def objective(found):
        plans = ((i, j, getattr(x, "toarray", lambda x=x: x)()) for i, j, x in found[1])
        return np.mean([quadratic(plan, spaces[i], spaces[j]) for i, j, plan in plans])

    def recognized(found):
        """Return the share of samples that are nearest to the other sample of the same neuron."""
        apart = np.asarray(found[0])
        apart = squareform(apart) if apart.ndim == 1 else apart
        order = np.arange(len(apart))
        return np.mean((apart + np.diag(np.full(len(order), np.inf))).argmin(1) == order ^ 1)

    problem = f"{len(spaces)} samples of neurons, 40 points"
    quality = "samples nearest to their twin"
    yield compared(problem, theirs, ours, objective, quality, recognized, rounds)


# --- GWTune: the lowest objective over epsilons and random starts ---------------------


def gwtune(rounds):
    """Compare the calls of its loop, written out here with settings like its tutorial's, but
    epsilons that are drawn at random, with `tune_epsilon`, and with its search over `gwfast.pot`.
    """
    costs, limits, trials = colors(93), (0.02, 0.2), 30
    for name, ours in ("tune_epsilon", tuned), ("its own search", same_search):
        yield compared(
            f"colors, 93 points, by {name}",
            lambda: search(loop, costs, limits, trials),
            lambda ours=ours: ours(costs, limits, trials),
            lambda plan: quadratic(plan, *costs),
            "top-1 matching",
            lambda plan: np.mean(plan.argmax(axis=1) == np.arange(len(plan))),
            rounds,
        )


def search(solve, costs, limits, trials):
    """Return the plan with the lowest objective over epsilons and starts."""
    rng, best = np.random.default_rng(0), (np.inf, None)
    for _ in range(trials):
        epsilon = np.exp(rng.uniform(*np.log(limits)))
        plan = solve(*costs, random_plan(rng, tuple(map(len, costs))), epsilon)
        value = quadratic(plan, *costs)
        # If kernels underflow nothing is left of a plan; such trials are pruned.
        if plan.sum() > 0.99 and value < best[0]:
            best = value, plan
    return best[1]


def random_plan(rng, shape):
    """Return positive entries, scaled to uniform masses."""
    plan = rng.random(shape)
    for _ in range(100):
        plan /= plan.sum(axis=1, keepdims=True) * shape[0]
        plan /= plan.sum(axis=0) * shape[1]
    return plan


def loop(C1, C2, plan, epsilon):
    """Make GWTune's calls of POT."""
    import ot

    p, q = (ot.unif(len(cost)) for cost in (C1, C2))
    terms = ot.gromov.init_matrix(C1, C2, p, q, loss_fun="square_loss")
    for step in range(200):
        before, gradient = plan, ot.gromov.gwggrad(*terms, plan)
        plan = ot.bregman.sinkhorn(p, q, gradient, epsilon, numItermax=1000)
        if step % 10 == 0 and np.linalg.norm(plan - before) <= 1e-9:
            break
    return plan


def same_search(costs, limits, trials):
    """Return the plan of GWTune's search with `gwfast.pot` in place of its loop."""

    def solve(C1, C2, plan, epsilon):
        return pot.entropic_gromov_wasserstein(C1, C2, epsilon=epsilon, G0=plan, max_iter=200)

    return search(solve, costs, limits, trials)


def tuned(costs, limits, trials):
    """Return the plan that stands in for `gw_alignment`; GWTune's epsilon is twice ours."""
    plan = gwfast.tune_epsilon(*costs, epsilons=np.geomspace(*limits, 8) / 2).plan
    return gwfast.gromov_wasserstein(*costs, epsilon=0, init=plan).plan


def colors(n):
    """Return how different two groups of people find colors, from 0 to about 1."""
    rng = np.random.default_rng(0)
    hue, shade = rng.uniform(0, 2 * np.pi, n), rng.beta(2, 3, (2, n))
    places = np.stack([shade[0] * np.cos(hue), shade[0] * np.sin(hue), shade[1]])
    exact, groups = 1 - np.exp(-1.5 * cdist(places.T, places.T)), []
    for _ in range(2):
        found = exact + 0.05 * rng.standard_normal(exact.shape)
        found = (found + found.T) / 2
        np.fill_diagonal(found, 0)
        groups.append(found.clip(0))
    return groups


PROGRAMS = {
    "cajal": Program("CAJAL", "cajal", 1, cajal),
    "gwtune": Program("GWTune", "", 2, gwtune),
}
