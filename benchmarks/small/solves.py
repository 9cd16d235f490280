"""Single solves: beside OTT-JAX, with searches and starts, and what surrounds them."""

import functools
import importlib.util
import time
from statistics import mean, median

import threadpoolctl

import gwfast

from ..ablation.problems import points
from ..common import settings
from ..common.markdown import show
from ..pairwise.timings import times
from ..pot.timings import in_turns
from ..solvers.contenders import CONTENDERS
from ..solvers.parts import GRAPHS
from ..solvers.problems import make
from .problems import judged, neurons, searched

# At most so many problems and spaces.
SEARCHED, SPACES = 20, 100
STARTS = 0, 1, 4
SIZES = 500, 1000, 2000
# Of the objective of the product plan.
EPSILON = gwfast.Epsilon(relative=0.0175)


def ott_table(n_problems):
    """Single dense problems beside OTT-JAX with few and many inner iterations."""
    names = ["gwfast", "gwfast loose"]
    if importlib.util.find_spec("ott"):
        names += ["OTT-JAX", "OTT-JAX tight"]
    else:
        print("(OTT-JAX left out: not installed)")
    for options in reversed(GRAPHS):
        try:
            problem = make(**options)
        except FileNotFoundError as error:
            print(f"({options['kind']} left out: {error.filename or error})")
            continue
        calls, compiled = [], []
        for name in names:
            rival = CONTENDERS[name]
            solve = rival.solver(problem, settings.THREADS, **rival.options)
            calls.append(functools.partial(solve, 0))
            began = time.perf_counter()
            calls[-1]()
            compiled.append(time.perf_counter() - began)
        seconds, results = in_turns(calls)
        rows = []
        for name, took, first, (plan, outer) in zip(names, seconds, compiled, results, strict=True):
            value, error = judged(plan, *problem.costs, problem.epsilon)
            row = name, *_milliseconds(took, seconds[0]), outer, f"{value:.6g}"
            rows.append((*row, f"{error:.0e}", f"{first - median(took):.1f}"))
        heads = "solver", "ms, median [min]", "ratio", "outer", "objective"
        heads += "marginal error", "s, first call beyond others"
        show(problem.name, heads, rows)


def starts_table(n_problems):
    """All pairs of small spaces without entropy, from some random plans beside the product plan."""
    kind, spaces = neurons(min(n_problems, SPACES))
    calls = [
        functools.partial(
            gwfast.pairwise_gromov_wasserstein,
            spaces,
            n_starts=n_starts,
            n_threads=settings.THREADS,
        )
        for n_starts in STARTS
    ]
    found = [call(plans=True).plans for call in calls]
    seconds, _ = in_turns(calls)
    rows = []
    for n_starts, plans, took in zip(STARTS, found, seconds, strict=True):
        values = [judged(plan.toarray(), spaces[i], spaces[j])[0] for (i, j), plan in plans.items()]
        rows.append((n_starts, *_milliseconds(took, seconds[0]), f"{mean(values):.6g}"))
    heads = "random starts", "ms, median [min]", "ratio", "mean objective"
    show(f"{len(values)} pairs of {len(spaces)} {kind}, no entropy", heads, rows)


def search_table(n_problems):
    """What the default search costs and finds without entropy."""
    problems = searched(min(n_problems, SEARCHED))
    options = {"epsilon": 0, "n_threads": settings.THREADS}
    calls = {
        "gwfast, default search": lambda: _plans(_each(problems, **options)),
        'gwfast, init="product"': lambda: _plans(_each(problems, init="product", **options)),
        "gwfast, a batch": lambda: _plans(gwfast.gromov_wasserstein_batch(problems, **options)),
    }
    if importlib.util.find_spec("ot"):
        calls["POT, product plan"] = lambda: _by_pot(problems)
    seconds, found = in_turns(list(calls.values()))
    rows = []
    for name, took, plans in zip(calls, seconds, found, strict=True):
        values = [judged(plan, *pair)[0] for plan, pair in zip(plans, problems, strict=True)]
        cells = _milliseconds(took, seconds[0], len(problems))
        rows.append((name, *cells, f"{mean(values):.6g}"))
    heads = "solver", "ms a problem, median [min]", "ratio", "mean objective"
    show(f"{len(problems)} problems of 50 to 100 points, no entropy", heads, rows)


def _each(problems, **options):
    return [gwfast.gromov_wasserstein(*pair, **options) for pair in problems]


def _plans(results):
    return [result.plan for result in results]


def _by_pot(problems):
    """POT's plans, with one thread: products are small."""
    from ot.gromov import gromov_wasserstein

    with threadpoolctl.threadpool_limits(1):
        return [gromov_wasserstein(*pair) for pair in problems]


def overhead_table(n_problems):
    """What a solve takes before its first iteration, and outside of all of them."""
    rows = []
    for n in SIZES:
        costs = points(n)
        for dtype in "float32", "float64":
            clocks, solve = [], functools.partial(_clocked, costs, dtype)
            in_turns([lambda solve=solve, clocks=clocks: clocks.append(solve())])
            *whole, result = zip(*clocks[min(1, len(clocks) - 1) :], strict=True)
            total, before, outside = map(median, whole)
            value, _ = judged(result[-1].plan, *costs, result[-1].epsilon)
            rows.append(
                (n, dtype, times([1e3 * one for one in whole[0]]), result[-1].n_iter,
                 f"{1e3 * before:.3g}", f"{100 * before / total:.1f}",
                 f"{100 * outside / total:.1f}", f"{value:.6g}")
            )  # fmt: skip
    heads = "points", "dtype", "ms, median [min]", "outer", "ms before the first"
    heads += "% before the first", "% outside of iterations", "objective"
    show("dense solves, product start", heads, rows)


def _clocked(costs, dtype):
    """Seconds of a solve, of what comes before its first outer iteration, and of all
    that is outside of them; and its result.
    """
    ended = []

    def callback(step):
        ended.append(time.perf_counter())

    began = time.perf_counter()
    result = gwfast.gromov_wasserstein(
        *costs,
        epsilon=EPSILON,
        init="product",
        dtype=dtype,
        n_threads=settings.THREADS,
        callback=callback,
    )
    total = time.perf_counter() - began
    first, *_, last = (step.seconds for step in result.history)
    return total, ended[0] - began - first, total - last, result


def _milliseconds(seconds, others, n=1):
    """Those of each of so many in a call, and how many times the others' they are."""
    ratio = median(seconds) / median(others)
    return times([1e3 * one / n for one in seconds]), f"{ratio:.2f}"
