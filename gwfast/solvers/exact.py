"""Problems without regularization: conditional gradient from several plans, of which
the best is kept.

The objective has many local minima at the vertices. Entropy smooths it, and the plan of
a problem with entropy is near a better vertex than the product plan mostly; where
problems are so small that hundreds of descents cost less than that, random plans do.
"""

import dataclasses
import time

from ..problems.epsilon import Epsilon, as_epsilon
from ..quadratic.conditional_gradient import ConditionalGradient, ExactLimits, nbytes
from ..quadratic.factory import is_factored
from ..quadratic.methods import PGD
from ..results.candidates import Candidate, Candidates
from ..results.status import Status
from ..utils.deadline import OutOfTime
from ..utils.memory import as_memory_limit
from ..utils.precision import SINGLE
from ..utils.progress import ProgressEvent
from .checkpoint import Checkpoint
from .levels import choose
from .race import OfBalanced, search
from .stages import descend
from .starts import (
    WIDE,
    Product,
    Profile,
    Random,
    matrix_of,
    random_starts,
    start_plan,
)

# Entries of a plan up to which there are more starts, milliseconds each.
SMALL = 10_000
# Random starts there by default, and elsewhere. On 40 pairs of graphs of 12 to 29 nodes
# the best of 64 was 2.5 % above the best plans known on the mean, of 4 8 %, the product
# plan alone 28 %.
N_RANDOM, N_RANDOM_LARGE = 64, 0
# Of problems that are not balanced, whose steps cost more.
N_RANDOM_FREE = 4
# Starts that are solved with entropy first, with these fractions of the mean linear
# cost as epsilon, or not at all (None). Of six pairs of graphs of 250 to 1000 nodes one
# of these led to within 0.6 % of the best of 25 for all.
STARTS = [
    (Product(), None),
    (Product(), 0.2),
    (Product(), 0.05),
    (Profile(WIDE), None),
    (Profile(WIDE), 0.05),
]
MORE_STARTS = [
    (Product(), 0.02),
    (Profile(), None),
    (Profile(root=True), None),
]
# Where the number of random starts is said: without what takes longer than they do.
FEW_STARTS = [(Product(), None), (Profile(WIDE), None)]
# Tolerance of the descents with entropy.
ROUGH = 1e-3


def check_exact(problem, options):
    """Refuse what has no meaning without regularization.

    Raises
    ------
    ValueError
        Naming the argument.
    """
    if problem.marginals == "unbalanced":
        raise ValueError("epsilon must be positive with marginals='unbalanced', got 0")
    if options.method != "pgd":
        raise ValueError(
            f"method must be 'pgd', the default, with epsilon=0, got {options.method!r}"
        )
    if options.tier not in ("auto", "dense"):
        raise ValueError(
            f"tier must be 'auto' or 'dense' with epsilon=0, got {options.tier!r}"
        )
    if not isinstance(options.checkpoint, Checkpoint):
        raise ValueError("checkpoint must be None with epsilon=0")


def check_memory(problem, options):
    """The bytes there may be; a MemoryError where that is too little."""
    limit, size = as_memory_limit(options.memory_limit), nbytes(problem)
    if size > limit:
        n, m = problem.shape
        raise MemoryError(
            f"an exact problem of {n} x {m} takes {size / 1e9:.3g} GB, and "
            f"memory_limit is {limit / 1e9:.3g} GB"
        )
    return limit


def solve_exact(problem, start, options, report):
    """The `GWResult` from a start, or, of balanced problems, from the best of several
    where that is None.
    """
    threads, deadline = options.threads(problem), options.limits.deadline
    deadline.check()
    solver = ConditionalGradient(problem, threads)
    limits = ExactLimits(
        options.limits.max_outer, options.limits.tol, deadline=deadline
    )
    if start is not None:
        report(ProgressEvent("solve", f"solving from {start}"))
        plan = start_plan(start, problem, threads)
        return solver.solve(plan, limits, options.callback).result(threads)
    best, made = None, []
    for label, plan, seconds in _plans(problem, options, report):
        solution = solver.solve(plan, limits)
        seconds += solution.seconds
        candidate = Candidate(
            start=label,
            n_points=max(problem.shape),
            epsilon=0.0,
            gw_cost=solution.gw_cost,
            n_outer=len(solution.history),
            seconds=seconds,
            fate="lost",
        )
        made.append(candidate)
        if best is None or solution.gw_cost < best[1].gw_cost:
            best = len(made) - 1, solution, plan
    number, solution, plan = best
    made[number] = made[number]._replace(fate="won")
    if options.callback is not None and not deadline.passed():
        # The same steps again, for it to see; where there is no time for them, as if
        # it had been late.
        seen = solver.solve(plan, limits, options.callback)
        if seen.status != Status.TIME_LIMIT:
            solution = seen
    return solution.result(threads, candidates=Candidates(made))


def _plans(problem, options, report):
    """What to begin with: triples of a label, a plan (None is the product plan), and
    the seconds that making it took. The product plan comes first.
    """
    starts, deadline = _starts(problem, options, report), options.limits.deadline
    for number, (start, fraction) in enumerate(starts, start=1):
        if number > 1 and deadline.passed():
            return
        began, label = time.perf_counter(), str(start)
        if fraction is not None:
            label += f", epsilon {100 * fraction:g} %"
        text = f"start {number} of {len(starts)}: {label}"
        report(ProgressEvent("start", text, number))
        try:
            plan = _plan(problem, start, fraction, options)
        except OutOfTime:
            return
        yield label, plan, time.perf_counter() - began
    if is_factored(problem) and options.n_starts is None:
        began = time.perf_counter()
        plan = _searched(problem, options, report)
        if plan is not None:
            yield "race with entropy", plan, time.perf_counter() - began


def _starts(problem, options, report):
    """Pairs of a start and a fraction, see `STARTS`."""
    if not problem.is_balanced:
        random = [(start, None) for start in random_starts(options.seed, N_RANDOM_FREE)]
        return [(Product(), None), (OfBalanced(options, report), None), *random]
    small = problem.shape[0] * problem.shape[1] <= SMALL
    made, count = FEW_STARTS, options.n_starts
    if count is None:
        made = STARTS + MORE_STARTS if small else STARTS
        count = N_RANDOM if small else N_RANDOM_LARGE
    return [*made, *((start, None) for start in random_starts(options.seed, count))]


def _plan(problem, start, fraction, options):
    if isinstance(start, Random):
        return matrix_of(start, problem)
    if fraction is None:
        return start_plan(start, problem, options.threads(problem))
    options = _entropic(options, Epsilon(relative=fraction))
    limits = dataclasses.replace(options.limits, tol=max(options.limits.tol, ROUGH))
    options = dataclasses.replace(options, method=PGD, tier="dense", limits=limits)
    return descend(problem, start, options).coupling.toarray()


def _entropic(options, epsilon):
    """The options for a problem with entropy on the way, in float32."""
    return dataclasses.replace(
        options, epsilon=as_epsilon(epsilon), dtype=SINGLE.dtype.name, callback=None
    )


def _searched(problem, options, report):
    """The plan of the race of starts at the usual epsilon, or None where there is no
    time or memory for it.
    """
    entropic, limit = _entropic(options, "auto"), as_memory_limit(options.memory_limit)
    kind = dict(itemsize=SINGLE.itemsize, races=True)
    try:
        tier = choose(problem, "auto", limit, options.threads(problem), **kind)
        entropic = dataclasses.replace(entropic, memory_limit=limit, tier=tier)
        winner, *_ = search(problem, entropic, report)
    except (MemoryError, OutOfTime):
        return None
    return winner.solution.coupling.toarray()
