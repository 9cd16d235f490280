"""Many problems of one size: a batch of gwfast, a loop over POT, OTT-JAX under vmap."""

import dataclasses
import functools
import importlib.util
import time
from statistics import median

import numpy as np
import threadpoolctl

import gwfast

from ..common import settings
from ..common.markdown import show
from ..common.settings import solver_arguments
from ..pairwise.timings import shares, times
from ..pot.timings import in_turns
from ..solvers.contenders import CONTENDERS, ott_function
from .problems import KINDS, judged, product_cost

# How strong the regularization is: relative to the objective of the product plan, and
# what POT takes by default, 0.1, which is half of that in gwfast.
EPSILONS = {
    "0.5 %": gwfast.Epsilon(relative=0.005),
    "0.2 %": gwfast.Epsilon(relative=0.002),
    "POT's default": gwfast.Epsilon(0.05),
}
# Seconds of a contender in a turn, after which it is given no more of the problems:
# there are four turns or so, then.
SECONDS = 4
# Problems that OTT solves at a time, all of them until the last one is solved: on the
# CPU 5 to 20 take the least time for each, 200 of 50 points half as much again.
CHUNK = 10
# Problems of a loop that say how many it can solve in its time.
FEW = 3
# Objectives that differ by less, relative to that of the product plan, count as equal:
# solvers stop at tolerances of their own.
EQUAL = 1e-3
HEADS = (
    "points", "epsilon", "solver", "threads", "solved", "ms each, median [min]",
    "ratio", "mean objective", "gwfast's of the same", "lower, higher than gwfast",
    "largest marginal error", "s to compile",
)  # fmt: skip


@dataclasses.dataclass
class Contender:
    """A function from pairs of costs to their plans, and how many it is given.

    Attributes
    ----------
    solve : callable
    threads : int
    least : int
        Problems that it is tried on; it gets a multiple of them.
    takes_all : bool
        Whether it gets all problems, however long it takes.
    compiles : bool
        Whether its first call is another one's.
    """

    solve: callable
    threads: int = settings.THREADS
    least: int = FEW
    takes_all: bool = False
    compiles: bool = False

    def share_of(self, problems):
        """The problems that it is given, and the seconds that it compiled for."""
        some, compiled = problems[: self.least], 0.0
        if self.takes_all:
            self.solve(some)
            return problems, compiled
        if self.compiles:
            compiled = -_seconds(self.solve, some)
        took = _seconds(self.solve, some)
        several = max(int(SECONDS / took), 1) * len(some)
        several = min(several, len(problems) // len(some) * len(some))
        return problems[:several], max(-compiled - took, 0.0)


def batch_table(n_problems):
    """A table of each kind of problems."""
    if not _has("ott"):
        print("(OTT-JAX left out: not installed)")
    for kind, make in KINDS.items():
        rows = []
        try:
            for n in settings.SMALL:
                problems = make(n, n_problems)
                for called, epsilon in EPSILONS.items():
                    rows += rows_of(problems, called, epsilon)
        except FileNotFoundError as error:
            print(f"({kind} left out: {error.filename or error})")
            continue
        show(f"{kind}: {n_problems} problems a batch", HEADS, rows)


def rows_of(problems, called, epsilon):
    """A row of each contender, the first being gwfast."""
    rivals = contenders(problems, epsilon)
    given, compiled = zip(*(r.share_of(problems) for r in rivals.values()), strict=True)
    calls = [
        functools.partial(rival.solve, some)
        for rival, some in zip(rivals.values(), given, strict=True)
    ]
    seconds, plans = in_turns(calls)
    rows, reference, fastest = [], None, None
    for (name, rival), some, found, took, first in zip(
        rivals.items(), given, plans, seconds, compiled, strict=True
    ):
        values, errors = np.transpose(
            [
                judged(plan, *pair, absolute(epsilon, *pair))
                for plan, pair in zip(found, some, strict=True)
            ]
        )
        took = [1e3 * one / len(some) for one in took]
        if reference is None:
            reference, fastest = values, median(took)
        same = reference[: len(values)]
        least = EQUAL * np.mean([product_cost(*pair) for pair in some])
        rows.append(
            (len(some[0][0]), called, name, rival.threads, len(some), times(took),
             f"{median(took) / fastest:.2f}", f"{values.mean():.6g}",
             f"{same.mean():.6g}", shares(values, same, least), f"{errors.max():.0e}",
             f"{first:.1f}" if first else "-")
        )  # fmt: skip
    return rows


def contenders(problems, epsilon):
    """Each `Contender` by name; those that are not installed are left out."""
    loose = CONTENDERS["gwfast loose"].options
    tolerances = {name: loose[name] for name in ("tol", "marginal_tol")}
    made = {}
    for name, options in {"gwfast": {}, "gwfast loose": tolerances}.items():
        solve = functools.partial(ours, epsilon=epsilon, **options)
        made[name] = Contender(solve, takes_all=True)
    if _has("ot"):
        for options in {}, {"tol": 1e-5}:
            threads, solve = _pot_threads(problems[:FEW], epsilon, options)
            more = "".join(f", {name}={value}" for name, value in options.items())
            made[f"POT{more}"] = Contender(solve, threads)
    if _has("ott"):
        chunk = min(CHUNK, len(problems))
        for name in "OTT-JAX", "OTT-JAX tight":
            options = CONTENDERS[name].options
            solve = ott_batches(epsilon, chunk, **options)
            called = f"OTT-JAX, {options['max_inner']} inner"
            made[called] = Contender(solve, least=chunk, compiles=True)
    return made


def ours(problems, **options):
    """One call for all of them."""
    options = {"init": "product", "n_threads": settings.THREADS, **solver_arguments(**options)}
    found = gwfast.gromov_wasserstein_batch(problems, dtype="float64", **options)
    return [result.plan for result in found]


def pot_loop(problems, epsilon, n_threads, **options):
    """A call of POT for each."""
    from ot.gromov import entropic_gromov_wasserstein

    with threadpoolctl.threadpool_limits(n_threads):
        return [
            entropic_gromov_wasserstein(*pair, epsilon=2 * absolute(epsilon, *pair), **options)
            for pair in problems
        ]


def _pot_threads(problems, epsilon, options):
    """How many threads BLAS is fastest with, and the loop with as many."""
    loops = {
        n: functools.partial(pot_loop, epsilon=epsilon, n_threads=n, **options)
        for n in dict.fromkeys((1, settings.THREADS))
    }
    loops[1](problems[:1])
    return min(loops.items(), key=lambda item: _seconds(item[1], problems))


def ott_batches(epsilon, chunk, **options):
    """A function that solves so many at a time, compiled at its first call."""
    import jax
    from ott.geometry import geometry
    from ott.problems.quadratic import quadratic_problem

    function = ott_function(**options)

    @jax.jit
    @jax.vmap
    def compiled(x, y, epsilon):
        spaces = geometry.Geometry(x), geometry.Geometry(y)
        return function(quadratic_problem.QuadraticProblem(*spaces), epsilon)[0]

    def solve(problems):
        plans = []
        for first in range(0, len(problems), chunk):
            some = problems[first : first + chunk]
            given = *zip(*some, strict=True), [absolute(epsilon, *one) for one in some]
            stacked = [np.asarray(one, dtype=np.float32) for one in given]
            plans += list(np.asarray(compiled(*stacked)))
        return plans

    return solve


def absolute(epsilon, x, y):
    """An `Epsilon` as the number that gwfast makes of it."""
    if epsilon.relative is None:
        return epsilon.value
    return epsilon.relative * product_cost(x, y)


def _has(module):
    return importlib.util.find_spec(module) is not None


def _seconds(function, *arguments):
    began = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - began
