"""Many small problems at once, one thread each."""

import contextlib
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from ..kernels.threads import resolve_n_threads, single_threaded_blas
from ..problems.epsilon import EpsilonLike
from ..problems.quadratic import QuadraticProblem
from ..quadratic.stopping import Limits
from ..results.result import ConvergenceWarning, GWResult
from ..utils.deadline import Deadline
from ..utils.progress import ProgressEvent, reporting
from ..utils.types import Progress
from .gromov import solve
from .options import InitLike, SolveOptions


def gromov_wasserstein_batch(
    problems: Iterable[QuadraticProblem | tuple],
    *,
    epsilon: EpsilonLike = "auto",
    init: InitLike = "auto",
    max_outer: int = 1000,
    max_inner: int = 10_000,
    tol: float = 1e-5,
    marginal_tol: float = 1e-5,
    time_limit: float | None = None,
    n_threads: int | None = None,
    seed: int = 0,
    progress: Progress = False,
) -> list[GWResult]:
    """Solve many problems, of any sizes, as many at a time as there are threads.

    Every problem is solved as by `gromov_wasserstein` with ``n_threads=1``, with the
    same result. It pays where problems are too small to be shared out themselves, up to
    about a thousand points.

    Parameters
    ----------
    problems : iterable of QuadraticProblem or tuple
        A tuple is ``(cost_x, cost_y)`` or ``(cost_x, cost_y, p, q)``, as
        `gromov_wasserstein` takes them.
    epsilon, init, max_outer, max_inner, tol, marginal_tol, seed
        As in `gromov_wasserstein`, for every problem.
    time_limit : float or None, default=None
        Seconds for all problems together. Of one that has not begun by then the product
        plan is returned, `status` "time_limit" and `n_outer` 0.
    n_threads : int or None, default=None
        Problems solved at a time; None is one a core.
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
    """
    deadline = Deadline.after(time_limit)
    options = SolveOptions(
        Limits(max_outer, max_inner, tol, marginal_tol, deadline=deadline),
        epsilon=epsilon,
        init=init,
        n_threads=1,
        seed=seed,
    )
    if isinstance(problems, str) or not isinstance(problems, Iterable):
        raise TypeError(f"problems must be an iterable, got {type(problems).__name__}")
    made = [_as_problem(*numbered) for numbered in enumerate(problems)]
    total = len(made)
    # The largest first, so that none is left alone at the end.
    order = sorted(range(total), key=lambda k: -made[k].shape[0])
    at_once = resolve_n_threads(n_threads, team=False)
    pool = ThreadPoolExecutor(at_once, thread_name_prefix="gwfast")
    with single_threaded_blas(), reporting(progress) as report, pool:
        running = {k: pool.submit(solve, made[k], options) for k in order}
        try:
            for done, k in enumerate(order):
                report(ProgressEvent("solve", "solving", done + 1, done, total))
                with _numbered(k):
                    running[k].result()
        except BaseException:
            # Ctrl-C, or a problem that was refused: nothing is left running.
            deadline.stop()
            pool.shutdown(cancel_futures=True)
            raise
    results = [running[k].result() for k in range(total)]
    bad = [k for k, result in enumerate(results) if not result.converged]
    if bad:
        shown = ", ".join(f"{k} ({results[k].status})" for k in bad[:5])
        warnings.warn(
            f"{len(bad)} of {total} problems did not converge: {shown}"
            f"{', ...' if len(bad) > 5 else ''}; see advice in their results",
            ConvergenceWarning,
            stacklevel=2,
        )
    return results


def _as_problem(number, problem):
    if isinstance(problem, QuadraticProblem):
        return problem
    if not isinstance(problem, tuple | list) or len(problem) not in (2, 4):
        came = type(problem).__name__
        if isinstance(problem, tuple | list):
            came = f"{came} of {len(problem)}"
        raise TypeError(
            f"problems[{number}] must be a QuadraticProblem or a tuple (cost_x, "
            f"cost_y) or (cost_x, cost_y, p, q), got {came}"
        )
    with _numbered(number):
        return QuadraticProblem(*problem)


@contextlib.contextmanager
def _numbered(number):
    """Messages of errors inside begin with the number of the problem."""
    try:
        yield
    except (TypeError, ValueError, MemoryError) as error:
        error.args = (f"problems[{number}]: {error}",)
        raise
