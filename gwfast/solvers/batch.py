"""Many small problems at once, one thread each."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..kernels.threads import resolve_n_threads, single_threaded_blas
from ..linear.marginals import Marginals
from ..problems.epsilon import EpsilonLike
from ..problems.losses import LossName
from ..problems.quadratic import QuadraticProblem
from ..quadratic.descend import Descent
from ..quadratic.judge import Limits
from ..quadratic.methods import PGD
from ..results.result import ConvergenceWarning, GWResult
from ..utils.callers import outside
from ..utils.deadline import Deadline
from ..utils.memory import as_memory_limit
from ..utils.pot_names import QUADRATIC, knows_pot_names
from ..utils.precision import Dtype
from ..utils.progress import ProgressEvent, Reporter, reporting
from ..utils.types import MemoryLimit, Progress
from .gromov import solve
from .options import InitLike, Settings, SolverOptions
from .product_plan import warn_of_scales
from .search.exact import exact_start
from .small import begin_small, finished, small_descents, small_result


@knows_pot_names(QUADRATIC)
def gromov_wasserstein_batch(
    problems: Iterable[QuadraticProblem | tuple],
    *,
    loss: LossName = "square",
    marginals: Marginals = "balanced",
    epsilon: EpsilonLike = "auto",
    init: InitLike = "auto",
    tol: float = 1e-5,
    max_iter: int = 1000,
    time_limit: float | None = None,
    dtype: Dtype | None = None,
    n_threads: int | None = None,
    memory_limit: MemoryLimit = None,
    seed: int = 0,
    progress: Progress = False,
    options: SolverOptions | None = None,
) -> list[GWResult]:
    """Solve many problems of any sizes in parallel, each on one thread.

    Every problem is solved as by `gromov_wasserstein` with ``n_threads=1``. This pays for problems
    of up to about a thousand points. For all pairs of many spaces there is
    `pairwise_gromov_wasserstein`.

    Parameters
    ----------
    problems : iterable of QuadraticProblem or tuple
        A tuple is ``(x, y)`` or ``(x, y, p, q)``; `loss` and `marginals` are for tuples.
    loss, marginals, epsilon, tol, max_iter, dtype, memory_limit, seed, progress, options
        As in `gromov_wasserstein`, for every problem.
    init : str, start or array-like, default="auto"
        As in `gromov_wasserstein`, except that problems of up to 100 x 100 points with "auto" begin
        at "exact", in a tenth of the time of a race.
    time_limit : float or None, default=None
        Seconds for all problems together; results of problems that have not begun by then are
        product plans with the `status` "time_limit".
    n_threads : int or None, default=None
        Number of problems solved at a time; None is one a core.

    Returns
    -------
    list of GWResult
        In the order of `problems`. If the status of any is not "converged", there is one
        `ConvergenceWarning`.

    Raises
    ------
    TypeError, ValueError
        As `gromov_wasserstein`; the message has the number of the problem.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> x = np.random.default_rng(0).standard_exponential((60, 3)) * [1, 2, 3]
    >>> cost = np.linalg.norm(x[:, None] - x, axis=2)
    >>> parts = [(cost[:n, :n], cost) for n in (20, 30, 40)]
    >>> [str(result.status) for result in gwfast.gromov_wasserstein_batch(parts)]
    ['converged', 'converged', 'converged']
    """
    settings = Settings.of(
        options,
        Deadline.after(time_limit),
        tol=tol,
        max_iter=max_iter,
        dtype=dtype,
        epsilon=epsilon,
        init=init,
        n_threads=1,
        memory_limit=memory_limit,
        seed=seed,
        takes_zero=True,
    )
    terms = dict(loss=loss, marginals=marginals)
    if isinstance(problems, str) or not isinstance(problems, Iterable):
        raise TypeError(f"problems must be an iterable, got {type(problems).__name__}")
    checked = [_as_problem(k, one, terms) for k, one in enumerate(problems)]
    n_threads = resolve_n_threads(n_threads, team=False)
    with single_threaded_blas(), reporting(progress) as report:
        results = solve_all(checked, settings, n_threads, report)
    bad = [f"{k} ({one.status})" for k, one in enumerate(results) if not one.converged]
    if bad:
        shown = ", ".join([*bad[:5], "..."] if len(bad) > 5 else bad)
        first = next(result for result in results if not result.converged)
        warnings.warn(
            f"{len(bad)} of {len(results)} problems did not end as 'converged': {shown}; the "
            f"first: {first.advice}",
            ConvergenceWarning,
            stacklevel=outside(),
        )
    warn_of_scales(results)
    return results


def solve_all(
    problems: Sequence[QuadraticProblem], options: Settings, n_threads: int, report: Reporter
) -> list[GWResult]:
    """Return the results of all problems, solved in parallel."""
    results, limits = dict[int, GWResult](), options.limits
    # The largest first, so that none is left alone at the end.
    order = sorted(range(len(problems)), key=lambda k: -problems[k].shape[0])

    def announce() -> None:
        done = len(results)
        report(ProgressEvent("solve", "solving", done + 1, done, len(problems)))

    def begin(k: int) -> tuple[Descent, Limits] | None:
        with _numbered(k):
            descent = begin_small(problems[k], _cheap(problems[k], options))
        return None if descent is None else (descent, limits)

    begun = dict[int, Descent]()  # descents that the compiled loop cannot finish

    def solve_together() -> None:
        shapes = {k: problems[k].shape for k in order}
        for k, descent in small_descents(shapes, begin, limits.deadline, n_threads):
            if descent.status is None:
                begun[k] = descent
                continue
            announce()
            results[k] = small_result(problems[k], descent, limits, descent.seconds)

    # Settings of the caller's context, such as `numpy.errstate`, are not ours.
    contextvars.Context().run(solve_together)
    left = [k for k in order if k not in results]
    if left:
        # The system takes time to say how much memory is free.
        options = dataclasses.replace(options, memory_limit=as_memory_limit(options.memory_limit))

    def finish(problem: QuadraticProblem, descent: Descent) -> GWResult:
        descent = finished(descent, limits)
        return small_result(problem, descent, limits, descent.seconds)

    def solve_one(k: int) -> GWResult:
        with _numbered(k):
            if k in begun:
                return contextvars.Context().run(finish, problems[k], begun[k])
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


def _cheap(problem: QuadraticProblem, options: Settings) -> Settings:
    """Return the options with cheap starts, for one of many problems."""
    n, m = problem.shape
    searches = isinstance(options.init, str) and options.init == "auto"
    plain = problem.is_balanced and options.method == PGD.name and not options.is_exact
    plain = plain and options.tier in ("auto", "dense") and options.search_time is None
    # Small problems begin at "exact", in a tenth of the time of a race.
    if not searches or n * m > 10_000 or not plain:
        return options
    init = exact_start(options.seed, options.limits.deadline, options.n_starts)
    return dataclasses.replace(options, init=init)


def _as_problem(
    number: int, problem: QuadraticProblem | tuple, terms: dict[str, Any]
) -> QuadraticProblem:
    with _numbered(number):
        if isinstance(problem, QuadraticProblem):
            for name, value in terms.items():
                if value not in ("square", "balanced"):
                    text = f"{name} must be left out for a QuadraticProblem, got {value!r}"
                    raise ValueError(text)
            return problem.refreshed()
        if isinstance(problem, tuple | list) and len(problem) in (2, 4):
            return QuadraticProblem(*problem, **terms)
    type_name = type(problem).__name__
    if isinstance(problem, tuple | list):
        type_name += f" of {len(problem)}"
    raise TypeError(
        f"problems[{number}] must be a QuadraticProblem or a tuple (x, y) or (x, y, p, q), got "
        f"{type_name}"
    )


@contextlib.contextmanager
def _numbered(number: int) -> Iterator[None]:
    """Messages of errors inside begin with the number of the problem."""
    try:
        yield
    except (TypeError, ValueError, MemoryError) as error:
        error.args = (f"problems[{number}]: {error}",)
        raise
