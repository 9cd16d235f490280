"""Entropic plans as SCOT asks for them: its search on scGEM, and single calls on more cells."""

import signal
import time

import numpy as np
import ot

from gwfast import pot

from ..common import data, runner
from .calls import OURS

MODULES = {"POT": ot.gromov, OURS: pot}
# SCOT's default.
EPSILON = 1e-3


def costs_of(sides, k):
    """Return SCOT's costs; it counts a cell among its own neighbors."""
    return [data.hops(data.correlated(side), k - 1) for side in sides]


def solved(module, costs, epsilon, **options):
    return module.entropic_gromov_wasserstein(*costs, epsilon=epsilon, log=True, **options)


def scgem(options):
    """Print times of every number of neighbors and epsilon that SCOT's search tries on scGEM."""
    sides = data.cells("scGEM")[:2]
    n = min(map(len, sides))
    rows, totals = [], dict.fromkeys(MODULES, 0.0)
    best = dict.fromkeys(MODULES, (1.0, "nothing"))
    for k in np.linspace(n // 20, n // 6, 5).astype(int)[: (options.sizes or [5])[0]]:
        costs, worst = costs_of(sides, k), 0.0
        seconds = dict.fromkeys(MODULES, 0.0)
        for epsilon in np.logspace(-1, -3, 12):
            losses = []
            for name, module in MODULES.items():
                began = time.perf_counter()
                plan, log = solved(module, costs, epsilon)
                seconds[name] += time.perf_counter() - began
                # SCOT's rule.
                if plan.any(axis=1).all() and plan.any(axis=0).all() and plan.sum() > 0.95:
                    losses.append(float(log["gw_dist"]))
                    found = losses[-1], f"k = {k}, epsilon = {epsilon:.6f}, loss {losses[-1]:.8g}"
                    best[name] = min(best[name], found)
            if len(losses) == 2:
                worst = max(worst, abs(losses[0] - losses[1]))
        totals = {name: totals[name] + seconds[name] for name in MODULES}
        rows.append([k, *_times(seconds), f"{worst:.1e}"])
    heads = "neighbors", "s, POT", f"s, {OURS}", "ratio", "losses differ by up to"
    rows.append(["all", *_times(totals), ""])
    runner.show(f"SCOT's search on scGEM, {n} cells", heads, rows)
    print("; ".join(f"{name} selects {what}" for name, (_, what) in best.items()), end=".\n\n")


def _times(seconds):
    theirs, ours = seconds.values()
    return f"{theirs:.3g}", f"{ours:.3g}", f"{theirs / ours:.1f}"


def cells(options):
    """Print calls as SCOT makes them on PBMC; POT's is given up after a while."""
    rows = []
    for n in options.sizes or (1000, 2000):
        sides = [side[:n] for side in data.cells("PBMC")[:2]]
        for k in (20, 110):
            costs = costs_of(sides, k)
            began = time.perf_counter()
            plan, log = solved(pot, costs, EPSILON)
            seconds = time.perf_counter() - began
            spent, theirs = _given_up(costs, options.limit)
            more = "" if theirs is not None else "> "
            row = [" x ".join(str(len(side)) for side in sides), k, f"{more}{spent:.4g}"]
            row += [f"{seconds:.3g}", f"{more}{spent / seconds:.3g}", f"{log['gw_dist']:.8g}"]
            # SCOT's projection of the first modality, in units of what it is made of. One
            # iteration of POT's from our plan should not move it.
            y = data.correlated(sides[1])
            others = [theirs, solved(ot.gromov, costs, EPSILON, G0=plan, max_iter=1)[0]]
            for other in others:
                moved = np.nan if other is None else np.abs((plan - other) @ y).max()
                row.append(f"{moved * len(plan) / np.abs(y).max():.1e}")
            rows.append(row)
    heads = "cells", "neighbors", "s, POT", f"s, {OURS}", "ratio", f"loss, {OURS}"
    heads += "projections differ by", "moved by an iteration of POT's by"
    runner.show(f"SCOT's call on PBMC, epsilon {EPSILON:g}", heads, rows)


def _given_up(costs, limit):
    """Return the seconds of POT's call and its plan, or None after so many seconds."""

    def give_up(*_):
        raise TimeoutError

    began, plan = time.perf_counter(), None
    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        plan, _ = solved(ot.gromov, costs, EPSILON)
    except TimeoutError:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    return time.perf_counter() - began, plan
