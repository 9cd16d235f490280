"""The same solves by two versions of gwfast in turn, A B A B ...:
``python -m benchmarks.compare OTHER``, where OTHER is the folder of another source tree
with its extensions built in place (``python setup.py build_ext --inplace``).

Both live in processes of their own and get the same problems; the ratios are of pairs
of solves next to one another, so that a machine whose speed drifts harms both. Every
round has new processes: where arrays happen to lie is worth a tenth for the whole life
of one. That the objectives are the same is printed beside them.

``--list`` takes the problems of `ablation.problems` instead, those with all of some words in their
names, and ends with the geometric mean and the worst ratio of each class, its sum of outer
iterations, and the objectives that are higher than the other tree's by over a thousandth.
"""

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import time

from .common import markdown
from .common.processes import ROOT

TITLES = (
    "problem", "this, s", "other, s", "ratio", "of pairs", "MB", "other, MB", "gw_cost"
)  # fmt: skip


def words(n, epsilon, pair):
    from .solvers.problems import make

    points = make("words", pair=pair, n=n, epsilon=epsilon, raw=False).points
    return _solver("gromov_wasserstein", *points, cloud=True, epsilon=epsilon)


def graph(n):
    from .solvers.problems import make

    problem = make("graph", pair="es-en", n=n)
    return _solver("gromov_wasserstein", *problem.costs, epsilon=problem.epsilon)


def pot(name, n, **options):
    import numpy as np
    from scipy.spatial.distance import cdist

    x = np.random.default_rng(0).exponential(size=(n, 3)) * (3, 2, 1)
    y = x[::-1] + np.random.default_rng(1).normal(size=(n, 3)) / 50
    costs = [cost / cost.max() for cost in (cdist(x, x), cdist(y, y))]
    return _solver(f"pot.{name}", *costs, log=True, **options)


PROBLEMS = {
    "es-en 2000, auto": lambda: words(2000, 1e-3, "es-en"),
    "es-fr 5000, auto": lambda: words(5000, 3e-4, "es-fr"),
    "graph 1000, auto": lambda: graph(1000),
    "pot float64 300": lambda: pot("entropic_gromov_wasserstein", 300, epsilon=5e-3),
    "pot float64 1000": lambda: pot("entropic_gromov_wasserstein", 1000, epsilon=2e-3),
    "pot semirelaxed 200": lambda: pot(
        "entropic_semirelaxed_gromov_wasserstein", 200, epsilon=0.05, max_iter=100
    ),
    "pot partial 100": lambda: pot(
        "entropic_partial_gromov_wasserstein", 100, m=0.7, reg=0.05, numItermax=50
    ),
    "pot BAPG 200": lambda: pot("BAPG_gromov_wasserstein", 200, epsilon=0.1, max_iter=100),
}


def listed():
    """The problems of the list by name. What it imports takes in gwfast, which the
    processes of both trees must find first.
    """
    from .ablation.problems import PROBLEMS, solver

    return {name: functools.partial(solver, name) for name, *_ in PROBLEMS}


# Fraction by which an objective that is higher is another one.
WORSE = 1e-3


def _solver(path, x, y, cloud=False, **options):
    """A function that solves, and returns the objective."""
    import gwfast

    solve = gwfast
    for name in path.split("."):
        solve = getattr(solve, name)
    sides = [gwfast.PointCloud(side) for side in (x, y)] if cloud else [x, y]

    def run():
        made = solve(*sides, **options)
        if not isinstance(made, tuple):
            return made.gw_cost
        log = made[1]
        return next(log[key] for key in ("gw_dist", "srgw_dist", "partial_gw_dist") if key in log)

    return run


def serve(tree):
    """Solve what the standard input names, with the gwfast of that folder."""
    sys.path.insert(0, tree)
    import warnings

    import gwfast

    from .common.footprint import Footprint

    assert gwfast.__file__.startswith(tree), gwfast.__file__
    warnings.simplefilter("ignore")
    problems = PROBLEMS | listed()
    run, stream = None, os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        name = json.loads(line)
        if name is not None:
            run, answer = problems[name](), None
        else:
            footprint, began = Footprint(), time.perf_counter()
            gw_cost = run()
            seconds = time.perf_counter() - began
            footprint.look()
            n_iter = len(getattr(gw_cost, "history", ()))
            gw_cost = float(getattr(gw_cost, "gw_cost", gw_cost))
            answer = seconds, footprint.above, gw_cost, n_iter
        print(json.dumps(answer), file=stream, flush=True)


class Tree:
    """A process with the gwfast of a folder."""

    def __init__(self, folder, threads):
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, "--serve", str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
            env=environment,
        )  # fmt: skip

    def ask(self, message=None):
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def end(self):
        self._process.communicate()


def turns_of(name, folders, threads, runs):
    """What both trees answer in turn, in processes made for it."""
    trees = [Tree(folder, threads) for folder in folders]
    for tree in trees:
        tree.ask(name)
        tree.ask()  # warm
    turns = [[tree.ask() for tree in trees[:: (-1) ** k]][:: (-1) ** k] for k in range(runs)]
    for tree in trees:
        tree.end()
    return turns


def row_of(name, turns):
    """A row of the table."""
    ours, others = zip(*turns, strict=True)
    ratios = sorted(a[0] / b[0] for a, b in turns)
    medians = [statistics.median(run[0] for run in side) for side in (ours, others)]
    most = [max(run[1] for run in side) for side in (ours, others)]
    same = "same" if ours[0][2] == others[0][2] else f"{ours[0][2] - others[0][2]:.1e}"
    quartiles = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
    return (
        name, *(f"{s:.3f}" for s in medians), f"{statistics.median(ratios):.3f}",
        "{:.2f} to {:.2f}".format(*quartiles), *(f"{mb:.0f}" for mb in most), same,
    )  # fmt: skip


def main(argv=None):
    parser = argparse.ArgumentParser(prog="benchmarks.compare", description=__doc__)
    parser.add_argument("other", help="folder of the other source tree")
    parser.add_argument("problems", nargs="*", help=f"of {', '.join(PROBLEMS)}")
    parser.add_argument("--list", action="store_true", help="take the long list")
    parser.add_argument("--runs", type=int, default=3, help="solves a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args(argv)
    if options.serve:
        serve(options.other)
        return
    names = options.problems or PROBLEMS
    if options.list:
        asked = set(options.problems)
        names = [name for name in listed() if asked <= set(name.split())]
    folders, rows, found = (ROOT, os.path.abspath(options.other)), [], {}
    for name in names:
        turns = []
        for _ in range(options.rounds):
            turns += turns_of(name, folders, options.threads, options.runs)
        found[name] = turns
        rows.append(row_of(name, turns))
        print(*rows[-1], file=sys.stderr, flush=True)
    markdown.show(f"{ROOT.name} against {options.other}", TITLES, rows)
    if options.list:
        titles = "class", "problems", "mean ratio", "worst", "iterations", "higher"
        markdown.show("by class", titles, summary(found))


def summary(found):
    """A row for each class and one for all, of what `turns_of` found by name."""
    classes = {name.split()[0]: [] for name in found}
    for name in found:
        classes[name.split()[0]].append(name)
    rows = []
    for kind, names in [*classes.items(), ("all", list(found))]:
        ratios = {name: statistics.median(a[0] / b[0] for a, b in found[name]) for name in names}
        worst = max(ratios, key=ratios.get)
        mean = statistics.geometric_mean(ratios.values())
        higher = [
            name for name in names
            if found[name][0][0][2] > found[name][0][1][2] * (1 + WORSE)
        ]  # fmt: skip
        row = kind, str(len(names)), f"{mean:.3f}", f"{ratios[worst]:.2f} ({worst})"
        ours, others = (sum(found[name][0][k][3] for name in names) for k in (0, 1))
        row = *row, f"{ours} / {others}"
        rows.append((*row, ", ".join(higher) or "none"))
    return rows


if __name__ == "__main__":
    main()
