"""Time, memory and accuracy of gwfast and of its peers: ``python -m benchmarks.report [PART ...]``.

Parts: ``words`` (es-en, 2000 words a side), ``large`` (es-fr, 5000), ``graphs`` (dense costs: paths
between 1000 words, hops between cells) and ``fused`` (clouds with features in common), each solver
in a process of its own; and ``loading`` (vectors from text). ``--sizes`` are words, points or rows.
"""

import importlib
import time
from statistics import median

from ..common import runner
from ..common.footprint import Footprint
from . import contenders
from .contenders import CONTENDERS
from .loading import loading

# Seconds after which a solver is not run once more.
BUDGET = 60
# Objectives further apart than this are not the same result.
EQUAL = 0.005
DEFAULT = "gwfast, the default call"
PROBLEMS = {
    "words": lambda n: [dict(kind="words", pair="es-en", n=n or 2000, epsilon=1e-3)],
    "large": lambda n: [dict(kind="words", pair="es-fr", n=n or 5000, epsilon=3e-4)],
    "graphs": lambda n: [
        dict(kind="graph", pair="es-en", n=n or 1000),
        dict(kind="hops", name="scGEM", k=10),
    ],
    "fused": lambda n: [dict(kind="fused", n=n or 2000)],
}
SOLVERS = {
    "words": list(CONTENDERS),
    "large": ["gwfast", "gwfast loose", "POT 100", "OTT-JAX tight"],
    "graphs": [name for name in CONTENDERS if name != DEFAULT],
    "fused": ["gwfast", "gwfast loose", "OTT-JAX", "OTT-JAX tight"],
}
TABLES = {"loading": loading}
# Modules that are loaded before memory is measured.
MODULES = {
    "POT": ("ot.gromov",),
    "OTT-JAX": ("ott.geometry.pointcloud", "ott.solvers.quadratic.gromov_wasserstein"),
}
PACKAGES = "POT", "jax", "ott-jax", "pandas", "gensim"
NOTE = (
    "`difference` compares objectives, computed in float64 by `gwfast.verify`, with gwfast's; a "
    "difference above 0.5 % is another result. A plan that misses its marginals can have a smaller "
    "objective than any that meets them. `peak MB` is beyond what the process held before the "
    "solver got the problem."
)


def solve(job, tell):
    """Run a solver on a problem."""
    kind, arguments = job["problem"]["kind"], dict(job["problem"])
    del arguments["kind"]
    problem = contenders.PROBLEMS[kind](**arguments)
    tell(name=f"{problem.name}, epsilon {problem.epsilon:g}")
    solver, options = CONTENDERS[job["solver"]]
    shown = ", ".join(f"{name}={value}" for name, value in options.items())
    tell(settings=shown or "defaults")
    for module in MODULES.get(job["solver"].partition(" ")[0], ()):
        importlib.import_module(module)
    footprint, spent = Footprint(), 0.0
    run = solver(problem, **options)
    for k in range(-1, job["rounds"]):
        began = time.perf_counter()
        plan, n_outer = run()
        seconds = time.perf_counter() - began
        if k < 0:
            # The first run, which may compile something, counts if it takes long.
            tell(peak=footprint.above)
        if k >= 0 or seconds > BUDGET:
            tell(run={"seconds": seconds, "outer": n_outer} | contenders.judged(problem, plan))
        spent += seconds
        time.sleep(0.1)  # until threads of BLAS sleep
        if spent > BUDGET:
            break


def compared(part, options):
    """Return the results of all solvers on the problems of a part, kept ones included."""
    for size in options.sizes or [None]:
        for problem in PROBLEMS[part](size):
            for name in SOLVERS[part]:
                if not name.startswith(tuple(options.without)):
                    job = {"task": "solve", "problem": problem, "solver": name}
                    yield runner.measured(job, options, rounds=options.rounds)


def row_of(result, reference):
    """Return a row of a table, in terms of the first solver."""
    row = [result["solver"], result.get("settings", "")]
    if not result["runs"] or "failed" in result:
        return [*row, runner.outcome(result), *[""] * 8]

    def middle(key, result=result):
        return median(run[key] for run in result["runs"])

    seconds = [run["seconds"] for run in result["runs"]]
    row += [runner.shown(seconds), len(seconds), f"{middle('objective'):.5g}"]
    ratio = difference = ""
    if reference["runs"]:
        difference = middle("objective") / middle("objective", reference) - 1
        difference = f"{difference:+.2%}" if abs(difference) <= EQUAL else f"**{difference:+.2%}**"
        ratio = f"{median(seconds) / middle('seconds', reference):.3g}"
    right = f"{middle('right'):.3f}" if "right" in result["runs"][0] else ""
    row += [difference, f"{middle('marginal_error'):.0e}", right, f"{middle('outer'):g}"]
    return [*row, f"{result['peak']:.0f}", ratio]


def show(results):
    """Print a table for each problem."""
    heads = ["solver", "settings", "s, median [min]", "runs", "objective", "difference"]
    heads += ["marginal error", "right", "outer", "peak MB", "time / gwfast"]
    by_problem = {}
    for result in results:
        by_problem.setdefault(str(result["problem"]), []).append(result)
    for group in by_problem.values():
        title = next((result["name"] for result in group if "name" in result), "not run")
        runner.show(title, heads, [row_of(result, group[0]) for result in group])


def main(argv=None):
    shared = "rounds", "sizes", "limit", "without", "json"
    options = runner.parse(__spec__.name, __doc__, [*PROBLEMS, *TABLES], *shared, argv=argv)
    if options.serve and options.serve not in TABLES:
        runner.serve({"solve": solve}, options.serve)
        return
    chosen = [] if options.serve else [part for part in options.parts if part in PROBLEMS]
    for part in chosen:
        show(compared(part, options))
    if chosen:
        print(NOTE, end="\n\n")
    options.parts = [part for part in options.parts if part in TABLES]
    runner.make_tables(options, TABLES, PACKAGES)


if __name__ == "__main__":
    main()
