"""Calls shared out through joblib, so that the caller chooses who makes them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any


def in_parallel(
    function: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    n_jobs: int | None = None,
) -> Iterator[tuple[int, Any]]:
    """Call a function with each of several lists of arguments.

    Parameters
    ----------
    function : callable
        Of a module, as it may be sent to another process.
    arguments : sequence of tuple
        Arrays belong at the top of a tuple: there joblib and Dask see them, and send
        one that comes in many tuples to each process once.
    n_jobs : int or None, default=None
        As joblib has it; None is what ``joblib.parallel_config`` says, or one.

    Yields
    ------
    (int, result)
        Which of `arguments`, and what it gave: as soon as it is there, in any order
        (all at the end with backends that cannot do better, such as Ray's).
    """
    try:
        import joblib
    except ImportError as error:
        raise ImportError(
            "running jobs in parallel needs the package joblib (pip install joblib)"
        ) from error
    # A job takes seconds: more than one at a time would only unbalance the workers.
    options = {"n_jobs": n_jobs, "batch_size": 1}
    try:
        parallel = joblib.Parallel(**options, return_as="generator_unordered")
    except ValueError:  # the backend returns lists only
        parallel = joblib.Parallel(**options)
    yield from parallel(
        joblib.delayed(_numbered)(number, function, *some)
        for number, some in enumerate(arguments)
    )


def _numbered(number, function, *arguments):
    return number, function(*arguments)
