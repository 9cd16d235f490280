"""The price of the default search, in solves from the product plan."""

import statistics
import sys
import time

import gwfast

from ..ablation.problems import PROBLEMS, parts
from ..common.markdown import show

# Points a side, and options of problems of the ablation that say how they are solved.
FEWEST, MOST = 500, 2000
HOW = {"dtype", "method", "marginals", "tier"}
# Number of solves that take less than a second; the fastest counts.
REPEATS = 3
TITLES = "problem", "product, s", "search, s", "ratio", "iterations", "gained", "status"


def price_table(only=""):
    """A row for each balanced problem of the ablation in float32, of 500 to 2000 points
    a side, whose name has this text: CPU seconds of one thread.
    """
    rows, ratios, seen = [], [], []
    for name, made, epsilon, how in PROBLEMS:
        key = made, epsilon, how.get("loss"), how.get("alpha")
        if only not in name or not epsilon or HOW & set(how) or key in seen:
            continue
        seen.append(key)
        try:
            sides, terms, how = parts(name)
        except FileNotFoundError as error:
            print(f"(left out: {error.filename or error})", file=sys.stderr)
            continue
        problem = gwfast.QuadraticProblem(*sides, **terms)
        if not FEWEST <= max(problem.shape) <= MOST:
            continue
        how = {**how, "n_threads": 1}
        alone, least = solved(problem, **{**how, "init": "product"})
        result, seconds = solved(problem, **{**how, "init": "auto"})
        ratios.append(seconds / least)
        gained = 100 * (1 - result.gw_cost / alone.gw_cost)
        rows.append(
            (name.removesuffix(" product"), f"{least:.2f}", f"{seconds:.2f}",
             f"{ratios[-1]:.1f}", f"{iterations(result) / iterations(alone):.1f}",
             f"{gained:.1f} %", str(result.status))
        )  # fmt: skip
        print(*rows[-1], file=sys.stderr, flush=True)
    show("the default search, in solves from the product plan", TITLES, rows)
    if ratios:
        mean = statistics.geometric_mean(ratios)
        print(f"\nGeometric mean of the ratios {mean:.2f}, worst {max(ratios):.1f}.")


def solved(problem, **how):
    """The result, and the least CPU seconds of a few solves."""
    seconds = []
    while not seconds or (len(seconds) < REPEATS and min(seconds) < 1):
        began = time.process_time()
        result = gwfast.gromov_wasserstein(problem, **how)
        seconds.append(time.process_time() - began)
    return result, min(seconds)


def iterations(result):
    """Return the outer iterations of all candidates, in iterations on all points."""
    n_points = max(result.plan.shape)
    rows = result.candidates
    made = sum(row.n_iter * (row.n_points / n_points) ** 2 for row in rows)
    return made or result.n_iter
