"""The same solves by two versions of gwfast in turn, A B A B ...:
``python -m benchmarks.compare OTHER``, where OTHER is the folder of another source tree
with its extensions built in place (``python setup.py build_ext --inplace``).

Both live in processes of their own and get the same problems; the ratios are of pairs of solves
next to one another, so that a machine whose speed drifts harms both. Every round has new
processes: where arrays happen to lie is worth a tenth for the whole life of a process. The table
says whether the objectives are the same.

``--list`` takes the whole list of common/problems.py, or the problems with all of some words in
their names, and ends with the geometric mean and the worst ratio of each class, its sum of outer
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

from .common import runner

# Problems of the list, and calls of `gwfast.pot`: function, points, options.
SHORT = "words es-en 2000", "words es-fr 5000 product", "graph es-en 1000", "points 1200"
SEMIRELAXED = "entropic_semirelaxed_gromov_wasserstein"
PARTIAL = "entropic_partial_gromov_wasserstein"
CALLS = {
    "pot entropic 300": ("entropic_gromov_wasserstein", 300, dict(epsilon=5e-3)),
    "pot entropic 1000": ("entropic_gromov_wasserstein", 1000, dict(epsilon=2e-3)),
    "pot semirelaxed 200": (SEMIRELAXED, 200, dict(epsilon=0.05, max_iter=100)),
    "pot partial 100": (PARTIAL, 100, dict(m=0.7, reg=0.05, numItermax=50)),
    "pot BAPG 200": ("BAPG_gromov_wasserstein", 200, dict(epsilon=0.1, max_iter=100)),
}
LOSSES = "gw_dist", "srgw_dist", "partial_gw_dist"
# Fraction by which a higher objective is another objective.
WORSE = 1e-3


def solver(name):
    """Return a function that makes a call and returns the objective and the outer iterations."""
    import gwfast.pot

    from .common import problems, simulated

    if name in CALLS:
        function, n, options = CALLS[name]
        call = functools.partial(
            getattr(gwfast.pot, function), *simulated.points(n), log=True, **options
        )

        def run():
            log = call()[1]
            return float(next(log[key] for key in LOSSES if key in log)), 0

        return run
    solve = problems.solver(name)

    def run():
        result = solve()
        return result.gw_cost, len(result.history)

    return run


def serve(tree):
    """Solve what the standard input names, with the gwfast of this folder."""
    sys.path.insert(0, tree)
    import warnings

    import gwfast

    from .common.footprint import Footprint

    assert gwfast.__file__.startswith(tree), gwfast.__file__
    warnings.simplefilter("ignore")
    run, stream = None, os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        name, answer = json.loads(line), None
        if name is not None:
            run = solver(name)
        else:
            footprint, began = Footprint(), time.perf_counter()
            gw_cost, n_iter = run()
            answer = time.perf_counter() - began, footprint.above, gw_cost, n_iter
        print(json.dumps(answer), file=stream, flush=True)


class Tree:
    """A process with the gwfast of a folder."""

    def __init__(self, folder, threads):
        self._process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, "--serve", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=runner.ROOT,
            env=runner.environment(threads),
        )

    def ask(self, message=None):
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def end(self):
        self._process.communicate()


def turns_of(name, folders, options):
    """Return what both trees answer in turn, in new processes each round."""
    turns = []
    for _ in range(options.rounds):
        trees = [Tree(folder, options.threads) for folder in folders]
        for tree in trees:
            tree.ask(name)
            tree.ask()  # warm
        for k in range(options.runs):
            turns.append([tree.ask() for tree in trees[:: (-1) ** k]][:: (-1) ** k])
        for tree in trees:
            tree.end()
    return turns


def row_of(name, turns):
    """Return a row of the table."""
    ours, others = zip(*turns, strict=True)
    ratios = sorted(a[0] / b[0] for a, b in turns)
    medians = [statistics.median(run[0] for run in side) for side in (ours, others)]
    most = [max(run[1] for run in side) for side in (ours, others)]
    same = "same" if ours[0][2] == others[0][2] else f"{ours[0][2] - others[0][2]:.1e}"
    low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
    row = [name, *(f"{seconds:.3f}" for seconds in medians), f"{statistics.median(ratios):.3f}"]
    return [*row, f"{low:.2f} to {high:.2f}", *(f"{mb:.0f}" for mb in most), same]


def summary(found):
    """Return a row for each class and a row for all, from the turns of each problem."""
    classes = {}
    for name in found:
        classes.setdefault(name.split()[0], []).append(name)
    rows = []
    for kind, names in [*classes.items(), ("all", list(found))]:
        ratios = {name: statistics.median(a[0] / b[0] for a, b in found[name]) for name in names}
        worst = max(ratios, key=ratios.get)
        mean = statistics.geometric_mean(ratios.values())
        objectives = {name: [side[2] for side in found[name][0]] for name in names}
        higher = [name for name, (a, b) in objectives.items() if a > b * (1 + WORSE)]
        ours, others = (sum(found[name][0][k][3] for name in names) for k in (0, 1))
        row = [kind, len(names), f"{mean:.3f}", f"{ratios[worst]:.2f} ({worst})"]
        rows.append([*row, f"{ours} / {others}", ", ".join(higher) or "none"])
    return rows


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("other", help="folder of the other source tree")
    text = f"of {', '.join((*SHORT, *CALLS))}; words, with --list"
    parser.add_argument("problems", nargs="*", help=text)
    parser.add_argument("--list", action="store_true", help="take the long list")
    parser.add_argument("--runs", type=int, default=3, help="solves a round (default 3)")
    for name in ("rounds", "threads"):
        parser.add_argument(f"--{name}", **runner.OPTIONS[name])
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.set_defaults(rounds=3)
    options = parser.parse_intermixed_args(argv)
    if options.serve:
        serve(options.other)
        return
    names = options.problems or [*SHORT, *CALLS]
    if options.list:
        from .common import problems

        names = problems.chosen(options.problems)
    folders, rows, found = (runner.ROOT, os.path.abspath(options.other)), [], {}
    for name in names:
        found[name] = turns_of(name, folders, options)
        rows.append(row_of(name, found[name]))
        print(*rows[-1], file=sys.stderr, flush=True)
    heads = "problem", "this, s", "other, s", "ratio", "of pairs", "MB", "other, MB", "gw_cost"
    runner.show(f"{runner.ROOT.name} against {options.other}", heads, rows)
    if options.list:
        heads = "class", "problems", "mean ratio", "worst", "iterations", "higher"
        runner.show("by class", heads, summary(found))
    print(runner.facts((), options.threads))


if __name__ == "__main__":
    main()
