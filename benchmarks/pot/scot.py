"""Entropic plans as SCOT asks for them: its search over neighbors and epsilon on scGEM,
and single calls on more cells."""

import collections
import signal
import time

import numpy as np

from ..common import pairs, settings
from ..common.markdown import show
from .calls import OURS, solved

# Cells of each modality, all where there are fewer, and neighbors, with SCOT's default of epsilon.
N_CELLS, NEIGHBORS, EPSILON = (1000, 2000), (20, 110), 1e-3


def scgem_table(pot, ours):
    """Every k and epsilon that SCOT's unsupervised search tries on scGEM."""
    x, y, *_ = pairs.cells("scGEM")
    n = min(len(x), len(y))
    few = np.linspace(20, 100, 5) if n > 250 else np.linspace(n // 20, n // 6, 5)
    modules = {"POT": pot, OURS: ours}
    chosen = {name: Selection() for name in modules}
    rows, apart = [], []
    for k in few.astype(int):
        # SCOT counts a cell among its own neighbors.
        costs = [pairs.hops(standardized(side), k - 1) for side in (x, y)]
        seconds, rejected = collections.Counter(), collections.Counter()
        worst = 0.0
        for epsilon in np.logspace(-1, -3, 12):
            losses = {}
            for name, module in modules.items():
                began = time.perf_counter()
                plan, log = solved(module, costs, epsilon)
                seconds[name] += time.perf_counter() - began
                if is_accepted(plan):
                    losses[name] = float(log["gw_dist"])
                    chosen[name].offer(losses[name], k, epsilon)
                else:
                    rejected[name] += 1
            if len(losses) == 2:
                worst = max(worst, abs(losses["POT"] - losses[OURS]))
        apart.append(worst)
        row = [str(k), *(f"{seconds[name]:.2f}" for name in modules)]
        row += [f"{seconds['POT'] / seconds[OURS]:.1f}", f"{worst:.1e}"]
        rows.append([*row, *(str(rejected[name]) for name in modules)])
        for name in modules:
            chosen[name].seconds += seconds[name]
    total = [chosen[name].seconds for name in modules]
    row = ["all", *(f"{one:.2f}" for one in total), f"{total[0] / total[1]:.1f}"]
    rows.append([*row, f"{max(apart):.1e}", "", ""])
    heads = ["neighbors", "s, POT", f"s, {OURS}", "ratio", "losses differ by up to"]
    heads += ["rejected, POT", f"rejected, {OURS}"]
    show(f"SCOT's search on scGEM, {len(x)} cells", heads, rows)
    for name in modules:
        print(f"{name} selects {chosen[name]}.")


def cells_table(pot, ours):
    """One call as SCOT makes them, on PBMC; POT's is given up after a while."""
    x, y, *_ = pairs.cells("PBMC")
    rows = []
    for most in N_CELLS:
        for k in NEIGHBORS:
            spaces = [standardized(side)[:most] for side in (x, y)]
            costs = [pairs.hops(side, k - 1) for side in spaces]
            # Once to have all loaded.
            solved(ours, [cost[:50, :50] for cost in costs], EPSILON)
            seconds, (plan, log) = timed(ours, costs)
            before, found = timed(pot, costs, settings.POT_SECONDS)
            size = " x ".join(str(len(side)) for side in spaces)
            more, row = "" if found else "> ", [size, str(k)]
            row += [f"{more}{before:.4g}", f"{seconds:.3g}"]
            row += [f"{more}{before / seconds:.3g}", f"{log['gw_dist']:.8g}"]
            # SCOT's projection of the first modality, in units of what it is made of.
            others = [found[0]] if found else []
            others.append(solved(pot, costs, EPSILON, G0=plan, max_iter=1)[0])
            largest = np.abs(spaces[1]).max() / len(plan)
            off = [np.abs((plan - one) @ spaces[1]).max() / largest for one in others]
            row += ["" if len(off) == 1 else f"{off[0]:.1e}", f"{off[-1]:.1e}"]
            rows.append(row)
    heads = ["cells", "neighbors", "s, POT", f"s, {OURS}", "ratio", f"loss, {OURS}"]
    heads += ["projections differ by", "moved by an iteration of POT's by"]
    show(f"SCOT's call on PBMC, epsilon {EPSILON:g}", heads, rows)


def timed(module, costs, limit=0.0):
    """Seconds of a call, and what it returned: None if it was given up after `limit`
    seconds, unless that is zero."""
    began, found = time.perf_counter(), None
    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        found = solved(module, costs, EPSILON)
    except TimeoutError:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    return time.perf_counter() - began, found


def give_up(*_):
    raise TimeoutError


class Selection:
    """The lowest loss so far, as SCOT looks for it."""

    def __init__(self):
        self.loss, self.where, self.seconds = 1.0, None, 0.0

    def offer(self, loss, k, epsilon):
        if loss < self.loss:
            self.loss, self.where = loss, (k, epsilon)

    def __str__(self):
        if self.where is None:
            return "nothing"
        k, epsilon = self.where
        return f"k = {k}, epsilon = {epsilon:.6f}, loss {self.loss:.8g}"


def is_accepted(plan):
    """SCOT's rule."""
    bad = np.isnan(plan).any() or not plan.any(axis=1).all()
    return not (bad or not plan.any(axis=0).all() or plan.sum() < 0.95)


def standardized(points):
    """Rows whose distances go with the correlations of `points`; constant rows, which
    have none, become zero."""
    points = points - points.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    return points / np.where(lengths > 0, lengths, 1.0)
