"""The worth of each mechanism of the solver: ``python -m benchmarks.ablation``, or some of them
on some problems, ``python -m benchmarks.ablation newton --only words 1000``.

Every problem of common/problems.py is solved with all mechanisms and without each of them, in turn,
in one process. The table has, for each mechanism, the lines of code that only it needs
(mechanisms.py), the geometric mean and the worst of the times without the mechanism, as multiples
of the times with all, by class of problems, and the objectives that differ by more than a
thousandth. Problems whose iterations and objective stay the same to the last digit do not use a
mechanism: they count as 1.0, and `use it` leaves them out. A whole run takes half an hour on two
cores.
"""

import dataclasses
import statistics
import sys
import time

from . import mechanisms
from .common import problems, runner

# Fraction by which an objective is another objective.
WORSE = 1e-3
# Ratios nearer to one than this are not measured again.
NEAR, REPEATS = 0.05, 2
# Words of names, beside the first ones, that are classes.
CLASSES = {"float64", "small", "exact"}


def solved(name, tuning):
    """Return seconds, outer iterations and objective of a solve."""
    from gwfast import QuadraticProblem
    from gwfast.solvers.gromov import solve
    from gwfast.solvers.options import Settings
    from gwfast.utils.deadline import NEVER

    sides, terms, how = problems.parts(name)
    problem = QuadraticProblem(*sides, **terms)
    how = {"tol": 1e-5, "options": None, "tuning": tuning} | how
    settings = Settings.of(how.pop("options"), NEVER, takes_zero=True, **how)
    began = time.perf_counter()
    result = solve(problem, settings)
    return time.perf_counter() - began, len(result.history), result.gw_cost


def measure(job, tell):
    """Tell pairs of solves with all mechanisms and without each of some."""
    from gwfast.utils.tuning import DEFAULT, without

    def differs(ours, theirs):
        return ours[1:] != theirs[1:] and abs(theirs[0] / ours[0] - 1.0) > NEAR

    name = job["problem"]["name"]
    first, found = solved(name, DEFAULT), {}
    for mechanism in job["mechanisms"]:
        late = solved(name, without(mechanism))
        pairs = found[mechanism] = [(first, late)]
        if late[1:] != first[1:]:
            # The first call also loads and makes what later ones find.
            pairs[0] = solved(name, DEFAULT), late
        while len(pairs) < REPEATS and differs(*pairs[-1]):
            pairs.append((solved(name, DEFAULT), solved(name, without(mechanism))))
    tell(found=found)


def row_of(mechanism, found):
    """Return the row of a mechanism from the answers of `measure` by problem."""
    ratios, higher, lower, classes = {}, [], [], {}
    for problem, pairs_of in found.items():
        pairs = pairs_of[mechanism]
        (_, *ours), (_, *theirs) = pairs[0]
        if ours != theirs:
            ratios[problem] = statistics.median(late[0] / soon[0] for soon, late in pairs)
            rise = theirs[-1] / ours[-1] - 1.0 if ours[-1] > 0 else 0.0
            if abs(rise) > WORSE:
                (higher if rise > 0 else lower).append(f"{problem} {100 * rise:+.1f} %")
        first, *words = problem.split()
        for kind in {first, *(CLASSES & {*words})}:
            classes.setdefault(kind, []).append(ratios.get(problem, 1.0))
    means = {kind: statistics.geometric_mean(values) for kind, values in classes.items()}
    kind, worst = max(means, key=means.get), max(ratios, key=ratios.get, default=None)
    mean = statistics.geometric_mean([ratios.get(problem, 1.0) for problem in found])
    row = [mechanism, *mechanisms.lines_of(mechanism), f"{len(ratios)} of {len(found)}"]
    row += [f"{mean:.2f}", f"{means[kind]:.2f} ({kind})"]
    row.append(f"{ratios[worst]:.2f} ({worst})" if worst else "-")
    return [*row, ", ".join(higher) or "none", ", ".join(lower) or "none"]


def main(argv=None):
    from gwfast.utils.tuning import Tuning

    known = [field.name for field in dataclasses.fields(Tuning) if field.type is bool]
    options = runner.parse(__spec__.name, __doc__, known, "only", "json", argv=argv)
    if options.serve:
        runner.serve({"ablation": measure}, options.serve)
        return
    found = runner.kept(options.json, {})
    for name in problems.chosen(options.only):
        if name in found:
            continue
        job = {"task": "ablation", "problem": {"name": name}, "mechanisms": options.parts}
        result = runner.ask(options.program, job, options.threads)
        if "found" not in result:
            print(f"({name} left out: {result['failed']})", file=sys.stderr)
            continue
        found[name] = result["found"]
        runner.keep(options.json, found)
    heads = ["without", *mechanisms.LANGUAGES, "use it", "mean ratio", "worst class", "worst"]
    heads += ["higher", "lower"]
    rows = [row_of(mechanism, found) for mechanism in options.parts] if found else []
    runner.show("what each mechanism is worth", heads, rows)
    print(runner.facts((), options.threads))


if __name__ == "__main__":
    main()
