"""Seconds and costs of all pairs."""

import itertools
import time
from statistics import median

import numpy as np

import gwfast

from ..common import settings
from ..common.markdown import show
from .contenders import GWFAST, contenders, is_installed

# Costs that differ by less, relative to the mean of the costs, count as equal: solvers
# stop at tolerances of their own.
EQUAL = 1e-4
# Spaces that are solved before anything is timed, and of whose pairs the costs are
# computed anew from the plans.
WARM, CHECKED = 3, 8


def pairwise_table(title, spaces, peers, turns):
    """Solve all pairs by each in turn."""
    for name in peers:
        if not is_installed(name):
            print(f"({name} left out: not installed)")
    rivals = contenders(settings.THREADS, peers)
    seconds, costs = in_turns([solve for *_, solve in rivals], spaces, turns)
    named = {(name, threads): number for number, (name, threads, _) in enumerate(rivals)}
    pairs = np.triu_indices(len(spaces), 1)
    costs = [some[pairs] for some in costs]
    references = [name for name in peers if is_installed(name)]
    rows = []
    for number, (name, threads, _) in enumerate(rivals):
        row = [name, str(threads), times(seconds[number])]
        for peer in references:
            ratio = median(seconds[named[peer, 1]]) / median(seconds[number])
            row.append(f"{ratio:.2f}")
        row.append(f"{costs[number].mean():.6g}")
        for peer in references:
            others = costs[named[peer, 1]]
            row.append(shares(costs[number], others, EQUAL * others.mean()))
        rows.append(row)
    heads = ["solver", "threads", "s, median [min]"]
    heads += [f"s, {peer} / this" for peer in references]
    heads += ["mean cost", *(f"lower, higher than {peer}" for peer in references)]
    sizes = [len(one) for one in spaces]
    about = f"{len(spaces)} {title} of {min(sizes)} to {max(sizes)} points"
    show(f"all pairs of {about}, {len(pairs[0])}", heads, rows)
    some = spaces[:CHECKED]
    print(f"Costs of {GWFAST} differ from those of its plans by {check(some):.0e} at")
    print(f"most (relative to their mean, pairs of {len(some)}).", end="\n\n")


def in_turns(functions, spaces, turns):
    """Seconds of each function in every turn, and the costs that it found."""
    for function in functions:
        function(spaces[:WARM])
    seconds, costs = [[] for _ in functions], [None for _ in functions]
    for _ in range(turns):
        for number, function in enumerate(functions):
            began = time.perf_counter()
            costs[number] = function(spaces)
            seconds[number].append(time.perf_counter() - began)
    return seconds, costs


def times(seconds):
    return f"{median(seconds):.3g} [{min(seconds):.3g}]"


def shares(costs, others, least):
    """On how many of the pairs costs are lower than others, by more than the least that
    counts, and on how many higher.
    """
    lower, higher = (costs < others - least).mean(), (costs > others + least).mean()
    return f"{100 * lower:.1f} %, {100 * higher:.1f} %"


def check(spaces):
    """How far costs are from the sum over the plan, with its four indices taken two at
    a time, in float64."""
    found = gwfast.pairwise_gromov_wasserstein(spaces, n_starts=0, plans=True, n_threads=1)
    errors = []
    for i, j in itertools.combinations(range(len(spaces)), 2):
        plan, x, y = found.plans[i, j].toarray(), spaces[i], spaces[j]
        p, q = plan.sum(axis=1), plan.sum(axis=0)
        cost = p @ np.square(x) @ p + q @ np.square(y) @ q
        cost -= 2 * np.sum((x @ plan @ y.T) * plan)
        errors.append(abs(found.costs[i, j] - cost))
    return max(errors) / (found.costs.mean() or 1.0)
