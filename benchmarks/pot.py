"""``gwfast.pot`` beside POT itself: ``python -m benchmarks.pot [TABLE ...]``.

Tables: ``agreement`` (plans of 200 random problems), ``scgem`` (SCOT's search over
neighbors and epsilon), ``dense`` (1000 x 1000), ``small`` (30 to 100 points a side).
All arrays are float64. Each table is made in a process of its own, with the threads of
``GWFAST_BENCH_THREADS`` for everything; calls that are compared take turns in it.
"""

import argparse
import collections
import importlib
import importlib.metadata
import os
import platform
import subprocess
import sys
import time
import warnings
from pathlib import Path
from statistics import median

import numpy as np
from scipy.spatial.distance import cdist

from . import pairs, settings
from .pot_problems import (
    TOL,
    attempt,
    difference,
    random_problem,
    shortest_paths,
)
from .tables import markdown

ROOT = Path(__file__).resolve().parents[1]
OURS = "gwfast.pot"
N_PROBLEMS = 200
# Plans further apart than this are shown one by one.
EQUAL = 1e-5
N_DENSE, N_SMALL = 1000, (30, 50, 100)
# POT's own default first, which blurs, then such as users come to.
DENSE_EPSILONS = (0.1, 0.02, 0.01)
# In units of the mean cost.
SMALL_EPSILONS = (1.0, 0.5, 0.2, 0.1, 0.05)
MAX_ITER = 1000  # POT's default
# Seconds after which calls take no more turns, and turns that there are at least.
BUDGET, TURNS = 60, 5


def agreement_table(pot, ours, n=N_PROBLEMS):
    """How far plans are apart where POT converges, and what comes where it fails."""
    apart, errors, distant, invalid = {}, [], [], []
    failures = collections.Counter()
    for seed in range(n):
        problem = random_problem(seed)
        found = attempt(problem, pot)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                plan, loss, _ = problem.solve(ours)
        except (ArithmeticError, ValueError, MemoryError) as error:
            invalid.append([str(seed), problem.name, found.failure, repr(error)])
            continue
        if found.failure:
            failures[found.failure] += 1
            errors.append(problem.marginal_error(plan))
        if not problem.is_valid(plan, loss):
            wrong = f"marginal error {problem.marginal_error(plan):.1e}, loss {loss:g}"
            invalid.append([str(seed), problem.name, found.failure, wrong])
        if found.failure:
            continue
        apart[seed] = difference(found.plan, plan)
        if not apart[seed] <= EQUAL:
            values = [problem.objective(found.plan, found.loss)]
            values.append(problem.objective(plan, loss))
            row = [str(seed), problem.name, f"{apart[seed]:.1e}"]
            row += [f"{value:.10g}" for value in values]
            row.append(f"{values[1] - values[0]:.1e}")
            distant.append([*row, f"{moved(problem, pot, plan):.1e}"])
    values = list(apart.values())
    print(f"POT converges on {len(values)} of {n} problems. Of the others it says:")
    for reason, count in failures.most_common():
        print(f"- {count} times: {reason}")
    groups = {
        "all": lambda problem: True,
        "square": lambda problem: problem.loss == "square_loss",
        "KL": lambda problem: problem.loss == "kl_loss",
        "fused": lambda problem: problem.linear_cost is not None,
        "asymmetric": lambda problem: not problem.is_symmetric,
    }
    rows = []
    for name, belongs in groups.items():
        some = [apart[seed] for seed in apart if belongs(random_problem(seed))]
        quantiles = np.quantile(some, (0.5, 0.9, 0.99, 1.0))
        rows.append([name, str(len(some)), *(f"{value:.1e}" for value in quantiles)])
    heads = ["problems", "converged", "median", "90 %", "99 %", "largest"]
    show("relative L1 difference of the plans, where POT converges", heads, rows)
    heads = ["seed", "problem", "difference", "objective, POT", OURS, "ours - POT's"]
    heads += ["POT moves ours by"]
    show(f"{len(distant)} differ by more than {EQUAL:g}", heads, distant)
    if errors:
        some = [f"{value:.1e}" for value in np.quantile(errors, (0.5, 0.9, 1.0))]
        print(f"Where it fails, marginal errors of {OURS}: {', '.join(some)} (median,")
        print("90 %, largest).")
    heads = ["seed", "problem", "POT", "ours"]
    show(f"{len(invalid)} have no valid plan with a finite loss", heads, invalid)


def moved(problem, pot, plan):
    """How far POT gets from that plan: nowhere, if it is another optimum."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return difference(plan, problem.solve(pot, G0=plan)[0])


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


def dense_table(pot, ours):
    """The calls as most scripts have them, with uniform weights."""
    rng = np.random.default_rng(0)
    clouds = helix(rng, N_DENSE, 0.3, 0.05), helix(rng, N_DENSE, 0.4, 0.1)
    problems = {
        "graph, 10 neighbors": [pairs.hops(cloud, 10) for cloud in clouds],
        "distances": [scaled(cdist(cloud, cloud)) for cloud in clouds],
    }
    rows = []
    for name, costs in problems.items():
        for epsilon in DENSE_EPSILONS:
            rows.append([name, f"{epsilon:g}", *compared(pot, ours, costs, epsilon)])
    show(f"{N_DENSE} x {N_DENSE}, POT's defaults", ["costs", "epsilon", *HEADS], rows)


def small_table(pot, ours):
    """Shortest paths of random graphs, as for kernels between graphs."""
    rows = []
    for n in N_SMALL:
        rng = np.random.default_rng(n)
        costs = [shortest_paths(rng, n) for _ in range(2)]
        mean = np.mean([cost.mean() for cost in costs])
        for share in SMALL_EPSILONS:
            row = compared(pot, ours, costs, share * mean)
            rows.append([str(n), f"{share:g}", *row])
    heads = ["points", "epsilon / mean cost", *HEADS]
    show("one call on small graphs", heads, rows)


HEADS = (
    "ms, POT, median [min]", f"ms, {OURS}, median [min]", "ratio", "turns",
    "outer, POT", f"outer, {OURS}", "loss, POT", "relative difference",
    "marginal error, POT", f"marginal error, {OURS}", "plans differ by",
)  # fmt: skip


def compared(pot, ours, costs, epsilon):
    """A row of both modules' times and results."""
    seconds, results = in_turns(
        [lambda module=module: solved(module, costs, epsilon) for module in (pot, ours)]
    )
    (plan, log), (other, other_log) = results
    losses = [float(one["gw_dist"]) for one in (log, other_log)]
    middle = [median(some) for some in seconds]
    times = [
        f"{1e3 * value:.3g} [{1e3 * min(some):.3g}]"
        for value, some in zip(middle, seconds, strict=True)
    ]
    row = [*times, f"{middle[0] / middle[1]:.2f}", str(len(seconds[0]))]
    row += [n_outer(pot, log), n_outer(ours, other_log), f"{losses[0]:.8g}"]
    row += [f"{abs(losses[1] / losses[0] - 1):.1e}"]
    row += [f"{marginal_error(one):.0e}" for one in (plan, other)]
    return [*row, f"{difference(plan, other):.1e}"]


def solved(module, costs, epsilon):
    """Plan and log of a call as SCOT makes it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p, q = (np.full(len(cost), 1 / len(cost)) for cost in costs)
        return module.entropic_gromov_wasserstein(
            *costs, p, q, "square_loss", epsilon=epsilon, log=True
        )


def in_turns(functions):
    """Seconds of each call and what the last ones returned; the first turn, which may
    have to load something, does not count where there is time for another."""
    seconds, spent = [[] for _ in functions], 0.0
    while not spent or (spent < BUDGET and len(seconds[0]) <= TURNS) or spent < 0.5:
        results = []
        for function, some in zip(functions, seconds, strict=True):
            began = time.perf_counter()
            results.append(function())
            some.append(time.perf_counter() - began)
            spent += some[-1]
    if len(seconds[0]) > 1:
        seconds = [some[1:] for some in seconds]
    return seconds, results


def n_outer(module, log):
    """Outer iterations; POT logs the change in every tenth."""
    errors = log["err"]
    if not module.__name__.startswith("ot."):
        return str(len(errors))
    return str(10 * len(errors) - 9 if errors[-1] <= TOL else MAX_ITER)


def marginal_error(plan):
    n, m = plan.shape
    rows = np.abs(plan.sum(axis=1) - 1 / n).sum()
    return float(rows + np.abs(plan.sum(axis=0) - 1 / m).sum())


def helix(rng, n, pitch, noise):
    """Points around two turns of a helix, with some more of them at its end."""
    angle = 4 * np.pi * np.sqrt(rng.random(n))
    points = np.stack([np.cos(angle), np.sin(angle), pitch * angle], axis=1)
    return points + noise * rng.standard_normal((n, 3))


def scaled(cost):
    return cost / cost.max()


def show(title, heads, rows):
    print(f"\n**{title}**\n")
    if rows:
        print(markdown(heads, rows), end="\n\n")


TABLES = {
    "agreement": agreement_table,
    "scgem": scgem_table,
    "dense": dense_table,
    "small": small_table,
}


def make(name, backend):
    """Print one table, in this process."""
    modules = [importlib.import_module(one) for one in ("ot.gromov", backend)]
    try:
        TABLES[name](*modules)
    except FileNotFoundError as error:
        print(f"({name} left out: {error.filename})")


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pot",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("tables", nargs="*", metavar="TABLE", help=f"{', '.join(TABLES)}; default all")
    add("--backend", default=OURS, help="ot.gromov compares POT with itself")
    add("--one", action="store_true", help="internal")
    options = parser.parse_args(argv)
    unknown = set(options.tables) - set(TABLES)
    if unknown:
        parser.error(f"TABLE must be one of {', '.join(TABLES)}, got {unknown.pop()}")
    if options.one:
        make(options.tables[0], options.backend)
        return
    environment = {**os.environ, **settings.environment(settings.THREADS)}
    for name in options.tables or TABLES:
        command = [sys.executable, "-m", "benchmarks.pot", name, "--one"]
        command += ["--backend", options.backend]
        if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
            sys.exit(f"{name} failed, see above")
    versions = [f"Python {platform.python_version()}"]
    for package in ("numpy", "POT"):
        versions.append(f"{package} {importlib.metadata.version(package)}")
    blas = [f"{name}={value}" for name, value in os.environ.items()
            if name.startswith(("OPENBLAS_", "MKL_", "BLIS_"))
            and not name.endswith("_NUM_THREADS")]  # fmt: skip
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    print(f"{', '.join(versions + blas)}; {settings.THREADS} threads; load {load:.1f}.")


if __name__ == "__main__":
    main()
