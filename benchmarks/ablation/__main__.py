"""What each mechanism of the solver is worth: ``python -m benchmarks.ablation``, or of
some only, ``python -m benchmarks.ablation newton damping --problems words 1000``.

Every problem of `problems.py` is solved with all mechanisms and without each of them, in turn, in
one process. Printed are the lines of code that stand for a mechanism, the geometric mean and the
worst of the times without it, as multiples of those with all, by class of problems, and the
objectives that are higher by more than a thousandth without it. Problems whose iterations and
objective stay the same to the last digit do not use a mechanism: they count as 1.0, and are not
among those that `use` it. A whole run takes half an hour on two cores; ``--json FILE`` keeps what
was measured, and leaves out what the file has.
"""

import argparse
import dataclasses
import json
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path

from ..common import markdown
from ..common.processes import ROOT, command
from .lines import lines_of
from .problems import PROBLEMS, parts

# Fraction by which an objective that is higher is another one.
WORSE = 1e-3
# Ratios nearer to one than this are not measured again.
NEAR, REPEATS = 0.05, 2
# Words of names, beside the first ones, that are classes.
CLASSES = {"float64", "small", "exact"}
TITLES = (
    "without", "lines", "use it", "mean ratio", "worst class", "worst", "higher",
    "lower",
)  # fmt: skip


def solved(name, mechanisms):
    """Seconds, outer iterations and objective of one solve."""
    from gwfast import QuadraticProblem
    from gwfast.solvers.gromov import solve
    from gwfast.solvers.options import Settings
    from gwfast.utils.deadline import NEVER

    sides, terms, how = parts(name)
    problem = QuadraticProblem(*sides, **terms)
    how = {"tol": 1e-5, "options": None, "mechanisms": mechanisms} | how
    settings = Settings.of(how.pop("options"), NEVER, takes_zero=True, **how)
    began = time.perf_counter()
    result = solve(problem, settings)
    return time.perf_counter() - began, len(result.history), result.gw_cost


def serve(name, names):
    """Print what `solved` returns with all mechanisms and without each of these."""
    from gwfast.utils.mechanisms import ALL, without

    warnings.simplefilter("ignore")
    first, found = solved(name, ALL), {}
    for one in names:
        late = solved(name, without(one))
        found[one] = [(first, late)]
        if late[1:] != first[1:]:
            # The first call also loads and makes what later ones find.
            found[one] = [(solved(name, ALL), late)]
        while len(found[one]) < REPEATS and _differs(*found[one][-1]):
            found[one].append((solved(name, ALL), solved(name, without(one))))
    print(json.dumps(found))


def _differs(ours, theirs):
    """Whether the times of two solves differ, by a mechanism or by noise."""
    return ours[1:] != theirs[1:] and abs(theirs[0] / ours[0] - 1.0) > NEAR


def rows_of(found, names):
    """A row of the table for each mechanism, of what `serve` printed by problem."""
    return [_row(name, found) for name in names]


def _row(name, found):
    ratios, higher, lower = {}, [], []
    for problem, of_each in found.items():
        pairs = of_each[name]
        (_, *ours), (_, *theirs) = pairs[0]
        if ours == theirs:
            continue
        ratios[problem] = statistics.median(late[0] / soon[0] for soon, late in pairs)
        by = theirs[-1] / ours[-1] - 1.0 if ours[-1] > 0 else 0.0
        if abs(by) > WORSE:
            (higher if by > 0 else lower).append(f"{problem} {100 * by:+.1f} %")
    classes = {}
    for problem in found:
        kind, *words = problem.split()
        for one in {kind, *(CLASSES & {*words})}:
            classes.setdefault(one, []).append(ratios.get(problem, 1.0))
    means = {kind: statistics.geometric_mean(some) for kind, some in classes.items()}
    kind = max(means, key=means.get)
    worst = max(ratios, key=ratios.get, default=None)
    mean = statistics.geometric_mean([ratios.get(problem, 1.0) for problem in found])
    return (
        name, str(lines_of(name)), f"{len(ratios)} of {len(found)}", f"{mean:.2f}",
        f"{means[kind]:.2f} ({kind})",
        f"{ratios[worst]:.2f} ({worst})" if worst else "-",
        ", ".join(higher) or "none", ", ".join(lower) or "none",
    )  # fmt: skip


def main(argv=None):
    from gwfast.utils.mechanisms import Mechanisms

    known = [field.name for field in dataclasses.fields(Mechanisms)]
    parser = argparse.ArgumentParser(prog="benchmarks.ablation", description=__doc__)
    parser.add_argument("mechanisms", nargs="*", help=f"of {', '.join(known)}")
    words = dict(nargs="+", default=[], metavar="WORD")
    parser.add_argument("--problems", help="with all of these in their names", **words)
    parser.add_argument("--json", type=Path, help="a file to keep, and to go on from")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    names = options.mechanisms or known
    unknown = sorted({*names} - {*known})
    if unknown:
        parser.error(f"mechanisms must be of {', '.join(known)}, got {unknown}")
    if options.serve:
        serve(options.serve, names)
        return
    kept, asked = options.json, set(options.problems)
    found = json.loads(kept.read_text()) if kept and kept.exists() else {}
    chosen = (name for name, *_ in PROBLEMS if asked <= set(name.split()))
    for problem in chosen:
        if problem in found:
            continue
        call = command(__spec__.name, *names, "--serve", problem)
        done = subprocess.run(call, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        if done.returncode:
            sys.exit(f"{problem} failed")
        found[problem] = json.loads(done.stdout)
        print(problem, file=sys.stderr, flush=True)
        if kept:
            kept.write_text(json.dumps(found))
    markdown.show("what each mechanism is worth", TITLES, rows_of(found, names))


if __name__ == "__main__":
    main()
