"""
Missing parts
=============

Two maps of the same places, turned against each other. Each lacks some, and one has a
crowd of others far away. A balanced plan has to match all of one with all of the other;
an unbalanced one pays for what it leaves out, at a price that one can choose.

It prints, among other things::

    60 places and 60, 45 of which are on both maps
    balanced: 4 of 45 right, 25 % of the mass on the crowd
    unbalanced: 42 of 45 right, 0 % of the mass on the crowd
"""

import argparse
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import gwfast

parser = argparse.ArgumentParser(description="Missing parts.")
parser.add_argument("--output", type=Path, default=Path("pictures"))
output = parser.parse_args().output
output.mkdir(parents=True, exist_ok=True)

# %%
# Two maps
# --------
# 60 places, and the first 45 of these turned, with 15 others far from them. Nothing but
# distances within each map is used, and three pairs that are known, to start from.

rng = np.random.default_rng(3)
N_PLACES, N_COMMON = 60, 45
places = rng.random((N_PLACES, 2)) * [1.6, 1.0]
turn = np.array([[0.0, -1.0], [1.0, 0.0]])
turned = places[:N_COMMON] @ turn + 0.005 * rng.standard_normal((N_COMMON, 2))
crowd = [-2.2, 2.0] + 0.15 * rng.standard_normal((N_PLACES - N_COMMON, 2))
maps = places, np.vstack([turned, crowd])
costs = [np.linalg.norm(x[:, None] - x, axis=2) for x in maps]
known = gwfast.Seeds([[5, 5], [20, 20], [40, 40]])
print(f"{N_PLACES} places and {N_PLACES}, {N_COMMON} of which are on both maps")

# %%
# All, or what is worth it
# ------------------------
# Row and column sums of an unbalanced plan are not given: missing them costs `rho` times a
# Kullback-Leibler divergence. What would cost more is left out, and so is a little of all others.
# `GWResult.mass` is the mass that is matched, out of the masses in `GWResult.marginals`.

problems = {
    "balanced": gwfast.QuadraticProblem(*costs),
    "unbalanced": gwfast.QuadraticProblem(*costs, marginals=gwfast.Unbalanced(0.1)),
}
with warnings.catch_warnings():
    # The balanced plan keeps no known pair, and warns.
    warnings.simplefilter("ignore", gwfast.ConvergenceWarning)
    plans = {
        name: gwfast.gromov_wasserstein(problem, epsilon=0.002, init=known)
        for name, problem in problems.items()
    }
for name, result in plans.items():
    n_right = (result.plan[:N_COMMON].argmax(axis=1) == np.arange(N_COMMON)).sum()
    on_crowd = result.plan[:, N_COMMON:].sum() / result.mass
    print(f"{name}: {n_right} of {N_COMMON} right, {100 * on_crowd:.0f} % of the mass on the crowd")
kept = plans["unbalanced"]
print(f"matched {kept.mass:.2f} of the mass")

# %%
# A picture
# ---------
# The first map is blue, the second, turned back, is beside it. Lines are matches that
# have much of the mass of a place, which fades with the mass that it has lost.

BLUE, ORANGE, GRAY = "#0072b2", "#d55e00", "#777777"
figure, panels = plt.subplots(1, 2, figsize=(7.4, 3.6), layout="constrained")
for axes, (name, result) in zip(panels, plans.items(), strict=True):
    plan, beside = result.plan * N_PLACES, maps[1] @ turn.T + [2.4, 0.0]
    for i, j in np.argwhere(plan > 0.2):
        ends = zip(places[i], beside[j], strict=True)
        axes.plot(*ends, color=GRAY, linewidth=0.6, alpha=min(plan[i, j], 1.0))
    sums = (places, plan.sum(axis=1), BLUE), (beside, plan.sum(axis=0), ORANGE)
    for points, masses, color in sums:
        alpha = np.clip(masses, 0.12, 1.0)
        axes.scatter(*points.T, color=color, s=14, alpha=alpha, zorder=2)
    axes.set_title(f"{name}, mass {result.mass:.2f}", fontsize="medium", loc="left")
    axes.set_aspect("equal")
    axes.set_axis_off()
figure.savefig(output / "missing_parts.png", dpi=150)
