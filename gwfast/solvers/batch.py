"""Many small problems at once, one thread each."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from ..kernels.threads import resolve_n_threads, single_threaded_blas
from ..linear.rules import Marginals
from ..problems.epsilon import EpsilonLike
from ..problems.losses import LossName
from ..problems.quadratic import QuadraticProblem
from ..quadratic.judge import Limits
from ..quadratic.linearize import Tier
from ..quadratic.methods import PGD, MethodName
from ..results.result import ConvergenceWarning, GWResult
from ..utils.callers import outside
from ..utils.deadline import Deadline
from ..utils.memory import as_memory_limit
from ..utils.pot_names import QUADRATIC, knows_pot_names
from ..utils.precision import Dtype
from ..utils.progress import ProgressEvent, reporting
from ..utils.types import MemoryLimit, Progress
from .gromov import solve
from .options import InitLike, SolveOptions
from .product_plan import warn_of_scales
from .search.exact import exact_start
from .small import begin_small, small_descents, small_result


@knows_pot_names(QUADRATIC)
def gromov_wasserstein_batch(
    problems: Iterable[QuadraticProblem | tuple],
    *,
    epsilon: EpsilonLike = "auto",
    loss: LossName = "square",
    marginals: Marginals = "balanced",
    mass: float | None = None,
    method: MethodName = "pgd",
    dtype: Dtype | None = None,
    init: InitLike = "auto",
    n_starts: int | None = None,
    max_outer: int = 1000,
    max_inner: int = 10_000,
    tol: float = 1e-5,
    marginal_tol: float = 1e-5,
    time_limit: float | None = None,
    n_threads: int | None = None,
    memory_limit: MemoryLimit = None,
    tier: Tier = "auto",
    seed: int = 0,
    progress: Progress = False,
) -> list[GWResult]:
    """Solve many problems of any sizes in parallel, each on one thread.

    Every problem is solved as by `gromov_wasserstein` with ``n_threads=1``, with the
    same result if `init` is the same. This pays for problems that are too small for
    several threads each, up to about a thousand points. For costs between all pairs of
    many spaces there is `pairwise_gromov_wasserstein`.

    Parameters
    ----------
    problems : iterable of QuadraticProblem or tuple
        A tuple is ``(cost_x, cost_y)`` or ``(cost_x, cost_y, p, q)``, as
        `gromov_wasserstein` takes them; `loss`, `marginals` and `mass` are for tuples.
    epsilon, loss, marginals, mass, method, dtype, max_outer, max_inner, tol
        As in `gromov_wasserstein`, for every problem.
    init : str, start or array-like, default="auto"
        As in `gromov_wasserstein`, except that "auto" is cheap for problems of up to
        100 x 100 points: they begin at "exact", the best plan without regularization
        that the search of `gromov_wasserstein` with ``epsilon=0`` finds. (If `epsilon`
        is 0, that plan is the result.) This takes tens of milliseconds; the race of
        starts, which larger problems have, takes half a second and more.
    n_starts : int or None, default=None
        Number of random starts of "auto"; None is four to twelve for small problems,
        and is chosen by the size for larger ones.
    marginal_tol, memory_limit, tier, seed
        As in `gromov_wasserstein`.
    time_limit : float or None, default=None
        Seconds for all problems together. The result of a problem that has not begun by
        then is the product plan, with `status` "time_limit" and `n_outer` 0.
    n_threads : int or None, default=None
        Number of problems solved at a time; None is one a core.
    progress : bool or callable, default=False
        As in `gromov_wasserstein`.

    Returns
    -------
    list of GWResult
        In the order of `problems`.

    Raises
    ------
    TypeError, ValueError
        As `gromov_wasserstein`; the message has the number of the problem.

    Warns
    -----
    ConvergenceWarning
        Once, if any of them did not converge; their `GWResult.status` says how.
    UserWarning
        Once, if the terms of a fused problem differ much, see `GWResult.term_ratio`.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> x = np.random.default_rng(0).standard_exponential((60, 3)) * [1, 2, 3]
    >>> cost = np.linalg.norm(x[:, None] - x, axis=2)
    >>> parts = [(cost[:n, :n], cost) for n in (20, 30, 40)]
    >>> [str(one.status) for one in gwfast.gromov_wasserstein_batch(parts)]
    ['converged', 'converged', 'converged']
    """
    deadline = Deadline.after(time_limit)
    options = SolveOptions(
        Limits(max_outer, max_inner, tol, marginal_tol, deadline=deadline),
        epsilon=epsilon,
        method=method,
        dtype=dtype,
        init=init,
        n_threads=1,
        memory_limit=memory_limit,
        tier=tier,
        seed=seed,
        n_starts=n_starts,
        takes_zero=True,
    )
    given = dict(loss=loss, marginals=marginals, mass=mass)
    if isinstance(problems, str) or not isinstance(problems, Iterable):
        raise TypeError(f"problems must be an iterable, got {type(problems).__name__}")
    made = [_as_problem(k, one, given) for k, one in enumerate(problems)]
    n_threads = resolve_n_threads(n_threads, team=False)
    with single_threaded_blas(), reporting(progress) as report:
        results = solve_all(made, options, n_threads, report)
    bad = [f"{k} ({one.status})" for k, one in enumerate(results) if not one.converged]
    if bad:
        shown = ", ".join([*bad[:5], "..."] if len(bad) > 5 else bad)
        warnings.warn(
            f"{len(bad)} of {len(results)} problems did not converge: {shown}; see advice in "
            "their results",
            ConvergenceWarning,
            stacklevel=outside(),
        )
    warn_of_scales(results)
    return results


def solve_all(problems, options, n_threads, report):
    """Return the results of all problems, solved in parallel."""
    results, limits = {}, options.limits
    # The largest first, so that none is left alone at the end.
    order = sorted(range(len(problems)), key=lambda k: -problems[k].shape[0])

    def announce():
        done = len(results)
        report(ProgressEvent("solve", "solving", done + 1, done, len(problems)))

    def begin(k):
        with _numbered(k):
            descent = begin_small(problems[k], _cheap(problems[k], options))
        return descent and (descent, limits)

    def solve_together():
        small = {k: problems[k] for k in order}
        for k, descent in small_descents(small, begin, limits.deadline, n_threads):
            announce()
            results[k] = small_result(problems[k], descent, limits, descent.seconds)

    # Settings of the caller's context, such as `numpy.errstate`, are not ours.
    contextvars.Context().run(solve_together)
    left = [k for k in order if k not in results]
    if left:
        # The system takes time to say how much memory is free.
        options = dataclasses.replace(options, memory_limit=as_memory_limit(options.memory_limit))

    def solve_one(k):
        with _numbered(k):
            return contextvars.Context().run(solve, problems[k], _cheap(problems[k], options))

    with ThreadPoolExecutor(n_threads, thread_name_prefix="gwfast") as pool:
        calls = {k: pool.submit(solve_one, k) for k in left}
        try:
            for k, call in calls.items():
                announce()
                results[k] = call.result()
        except BaseException:
            # Ctrl-C, or a problem that was refused: nothing is left running.
            limits.deadline.stop()
            pool.shutdown(cancel_futures=True)
            raise
    return [results[k] for k in range(len(problems))]


def _cheap(problem, options):
    """Return the options with cheap starts, for one of many problems."""
    n, m = problem.shape
    asked = isinstance(options.init, str) and options.init == "auto"
    plain = problem.is_balanced and options.method == PGD.name and not options.is_exact
    # Small problems begin at "exact", in a tenth of the time of a race.
    if not asked or n * m > 10_000 or not plain:
        return options
    init = exact_start(options.seed, n_random=options.n_starts)
    return dataclasses.replace(options, init=init)


def _as_problem(number, problem, given):
    several = isinstance(problem, tuple | list)
    if not isinstance(problem, QuadraticProblem) and not (several and len(problem) in (2, 4)):
        came = type(problem).__name__ + (f" of {len(problem)}" if several else "")
        raise TypeError(
            f"problems[{number}] must be a QuadraticProblem or a tuple (cost_x, "
            f"cost_y) or (cost_x, cost_y, p, q), got {came}"
        )
    with _numbered(number):
        if several:
            return QuadraticProblem(*problem, **given)
        return problem.refreshed()


@contextlib.contextmanager
def _numbered(number):
    """Messages of errors inside begin with the number of the problem."""
    try:
        yield
    except (TypeError, ValueError, MemoryError) as error:
        error.args = (f"problems[{number}]: {error}",)
        raise
