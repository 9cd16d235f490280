"""Large problems beside the machine's limits: ``python -m benchmarks.scale [PART ...]``.

Parts: ``words`` (Spanish and French, 10,000 and 20,000), ``clouds`` (a noisy rotation of 100,000
points, whose plan is never stored), ``million`` (of up to a million), ``tissue`` (two slices of up
to 50,000 spots, matched spot by spot), ``growth`` (how the time grows from 1000 to 100,000 points)
and ``low_rank`` (a fused problem of the slices beside OTT-JAX's low-rank solver as moscot calls
it), every solve in a process of its own; ``workers`` and ``faults`` (a problem on the workers of a
Dask cluster on this machine).
"""

import math
import time
from statistics import linear_regression

import numpy as np

import gwfast
from gwfast.spatial import pairwise_align

from ..common import machine, runner, simulated
from ..common.footprint import Footprint
from . import workers
from .cases import CASES
from .low_rank import prepared

# As far as the matches are worth it.
LOOSE = {"epsilon": 3e-4, "tol": 1e-4, "marginal_tol": 1e-3}
# Without a stored kernel each iteration makes it anew: a few, and roughly.
ROUGH = {"tol": 1e-3, "marginal_tol": 1e-2, "max_iter": 6}
# A plan so narrow that 32 neighbors of each point hold all but a hundredth of it.
NARROW = {**ROUGH, "tier": "neighbors", "epsilon": "0.25%", "max_iter": 12}
GROWTH = {"epsilon": "1.75%", "tol": 1e-3, "marginal_tol": 1e-2}
TABLES = {"workers": workers.workers, "faults": workers.faults}
PACKAGES = "jax", "ott-jax", "dask"


def words(n):
    problem = dict(kind="words", n=n)
    for how in ({}, LOOSE, {**LOOSE, "tol": 1e-3, "marginal_tol": 1e-2, "tier": "tiled"}):
        yield dict(task="solve", problem=problem, options=how)


def clouds(n):
    for how in ({**ROUGH, "tier": "tiled"}, NARROW):
        how = {**how, "memory_limit": "4GB"}
        yield dict(task="solve", problem=dict(kind="clouds", n=n), options=how)


def million(n):
    problem = dict(kind="clouds", n=n, d=50, synthetic=True)
    yield dict(task="solve", problem=problem, options={**NARROW, "memory_limit": "10GB"})


def tissue(n):
    yield dict(task="slices", problem=dict(n=n), options=dict(alpha=0.03))


def growth(n):
    problem = dict(kind="clouds", n=n, synthetic=True)
    yield dict(task="solve", problem=problem, options=GROWTH)


def low_rank(n):
    problem = dict(kind="tissue", n=n)
    for how in ({}, {**NARROW, "epsilon": "0.2%"}):
        how = {**how, "memory_limit": "3GB"}
        yield dict(task="solve", problem=problem, options=how, judged=True)
    for rank in (50, 200):
        yield dict(task="ott", problem=problem, options=dict(rank=rank))


PARTS = {
    "words": (words, (10_000, 20_000)),
    "clouds": (clouds, (100_000,)),
    "million": (million, (100_000, 300_000, 1_000_000)),
    "tissue": (tissue, (5000, 20_000, 50_000)),
    "growth": (growth, (1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)),
    "low_rank": (low_rank, (10_000, 50_000)),
}


# --- Measurements ---------------------------------------------------------------------


def limits(job, tell):
    """Tell the rate of SGEMM, GFLOP/s."""
    tell(sgemm=machine.sgemm_rate(runner.THREADS))


def case_of(job, tell):
    problem = dict(job["problem"])
    case = CASES[problem.pop("kind")](**problem)
    n, m = case.problem.shape
    tell(name=case.name, operations=2.0 * n * m * case.rank)
    return case


def solve(job, tell):
    """Solve a problem, and tell how fast that went and what was found."""
    case = case_of(job, tell)
    footprint, began = Footprint(), time.perf_counter()
    result = case.solve(n_threads=runner.THREADS, **job["options"])
    tell_of(result, time.perf_counter() - began, footprint, tell)
    tell(right=f"{case.right(result.match()):.3f}")
    if job.get("judged"):
        judge(case, result.coupling, tell)


def judge(case, plan, tell):
    """Tell objective without entropy and marginal error, by the independent `gwfast.verify`."""
    found = gwfast.verify(case.problem, plan, epsilon=1.0, max_iter=1)
    tell(gw_cost=found.gw_cost, marginal_error=found.marginals.value)


def tell_of(result, seconds, footprint, tell):
    """Tell seconds, memory, and facts about a result.

    Levels are points a side, with seconds and outer iterations of all candidates there; the rest
    of the time has 0 points.
    """
    tell(seconds=seconds, peak=footprint.above, form=result.coupling.form)
    for name in ("gw_cost", "marginal_error", "n_iter", "status", "left_out"):
        tell(**{name: getattr(result, name)})
    levels = {}
    for candidate in result.candidates:
        spent, outer = levels.get(candidate.n_points, (0.0, 0))
        levels[candidate.n_points] = spent + candidate.seconds, outer + candidate.n_iter
    if not levels:
        levels[max(result.coupling.shape)] = result.history[-1].seconds, result.n_iter
    levels[0] = seconds - sum(spent for spent, _ in levels.values()), 0
    tell(inner=sum(step.n_inner for step in result.history))
    tell(levels=[[size, *spent] for size, spent in levels.items()])


def slices(job, tell):
    """Match two slices spot by spot: shares of spots within two spots of their true place by best
    matches and by means of the plan, by expression alone, and by the best rigid motion of the true
    places, above which no rigid registration can come.
    """
    first, second, truth = simulated.two_slices(**job["problem"])
    tell(name=f"slices, {len(first.spots)} x {len(second.spots)} spots")
    sides = [(side.spots, side.features) for side in (first, second)]
    how = dict(dissimilarity="euclidean", blur=2.0, n_threads=runner.THREADS)
    footprint, began = Footprint(), time.perf_counter()
    result = pairwise_align(*sides, **how, **job["options"]).gw
    tell_of(result, time.perf_counter() - began, footprint, tell)
    x, y = (side.features.astype(np.float32) for side in (first, second))
    half = np.square(y).sum(axis=1) / 2
    alone = np.concatenate([(x[k : k + 500] @ y.T - half).argmax(1) for k in range(0, len(x), 500)])
    center, goal = first.spots.mean(axis=0), truth.mean(axis=0)
    left, _, right = np.linalg.svd((first.spots - center).T @ (truth - goal))
    rigid = (first.spots - center) @ left @ right + goal

    def share(missed):
        return (np.linalg.norm(missed, axis=1) <= 2.0).mean()

    said = f"{share(second.places[result.match()] - first.places):.3f}"
    said += f" (means {share(result.transform(second.spots) - truth):.3f}, by expression "
    said += f"{share(second.places[alone] - first.places):.3f}, rigid {share(rigid - truth):.3f})"
    tell(right=said)


def ott(job, tell):
    """Solve the same by OTT-JAX's low-rank solver, compiled before."""
    case = case_of(job, tell)
    footprint = Footprint()
    run = prepared(case, **job["options"])
    began = time.perf_counter()
    plan, n_iter, own = run()
    seconds, peak = time.perf_counter() - began, footprint.above
    tell(seconds=seconds, peak=peak, n_iter=n_iter, form=f"low rank, own objective {own:.5g}")
    judge(case, plan, tell)
    tell(right=f"{case.right(plan.topk(1).indices[:, 0]):.3f}")


# --- Tables ---------------------------------------------------------------------------


def row_of(result, sgemm):
    """Return a row of the table."""
    how = ", ".join(f"{name}={value}" for name, value in result["options"].items())
    row = [result.get("name", result["problem"]), how or "defaults"]
    if "done" not in result:
        return [*row, runner.outcome(result), *[""] * 10]
    products = ""
    if "operations" in result:
        products = f"{result['seconds'] * sgemm * 1e9 / (2 * result['operations']):.3g}"
    outer = f"{result['n_iter']} ({result['inner']})" if "inner" in result else result["n_iter"]
    levels = sorted(result.get("levels", ()), key=lambda level: level[0] or math.inf)
    shown = [
        f"{size or 'other'}: {spent:.3g}" + (f" ({k})" if k else "") for size, spent, k in levels
    ]
    row += [
        f"{result['seconds']:.3g}",
        products,
        f"{result['gw_cost']:.5g}",
        result["right"],
        outer,
    ]
    row += [", ".join(shown), f"{result['marginal_error']:.0e}"]
    row += ["" if result.get("left_out") is None else f"{result['left_out']:.1e}"]
    return [*row, result.get("status", ""), result["form"], f"{result['peak'] / 1e3:.2f}"]


def powers(results):
    """Return rows that say how seconds and memory grow with the number of points."""
    values = {
        "seconds in all": lambda result: result["seconds"],
        "seconds of an outer iteration": lambda result: (
            max(result["levels"])[1] / max(max(result["levels"])[2], 1)
        ),
        "peak MB": lambda result: result["peak"],
    }
    rows, done = [], [result for result in results if "done" in result]
    for name, value in values.items():
        points = [(result["problem"]["n"], value(result)) for result in done if value(result) > 0]
        if len({n for n, _ in points}) > 1:
            rows.append((name, f"{exponent(points):.2f}", f"{points[0][0]} to {points[-1][0]}"))
    return rows


def exponent(points):
    """Return the exponent of a power law fitted to pairs of a size and a value."""
    sizes, values = zip(*points, strict=True)
    return linear_regression(list(map(math.log, sizes)), list(map(math.log, values)))[0]


def measure(part, options, sgemm):
    """Print the table of a part."""
    jobs_of, sizes = PARTS[part]
    results = [runner.measured(job, options) for n in options.sizes or sizes for job in jobs_of(n)]
    heads = ["problem", "options", "s", "x products", "objective", "right", "outer (inner)"]
    heads += ["points: s (outer)", "marginal error", "left out", "status", "plan", "peak GB"]
    runner.show(part, heads, [row_of(result, sgemm) for result in results])
    if part in ("growth", "million"):
        runner.show("powers", ("what grows", "with n to the power", "points"), powers(results))


def main(argv=None):
    shared = "sizes", "limit", "json"
    names = [*PARTS, *TABLES]
    options = runner.parse(__spec__.name, __doc__, names, *shared, argv=argv, limit=24 * 3600)
    if options.serve and options.serve not in TABLES:
        tasks = {task.__name__: task for task in (limits, solve, slices, ott)}
        runner.serve(tasks, options.serve)
        return
    chosen = [] if options.serve else [part for part in options.parts if part in PARTS]
    if chosen:
        sgemm = runner.ask(options.program, {"task": "limits"}, options.threads)["sgemm"]
        for part in chosen:
            measure(part, options, sgemm)
        print(f"`x products`: of the two of a linearization at SGEMM, {sgemm:.0f} GFLOP/s.\n")
    options.parts = [part for part in options.parts if part in TABLES]
    runner.make_tables(options, TABLES, PACKAGES)


if __name__ == "__main__":
    main()
