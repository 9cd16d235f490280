"""Calls shared out through joblib, so that the caller chooses who makes them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any


def in_parallel(
    function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], n_jobs: int | None = None
) -> Iterator[tuple[int, Any]]:
    """Call a function of a module with each of several tuples of arguments, `n_jobs` at a time as
    joblib has it (None: what ``joblib.parallel_config`` says, or one). Yield the number of a tuple
    and its result as soon as it is there, in any order.

    Arrays belong at the top of a tuple: there joblib and Dask see them, and send one that comes in
    many tuples to each process once.
    """
    if n_jobs == 0:
        raise ValueError("n_jobs must be None or a number other than 0, got 0")
    try:
        import joblib
    except ImportError as error:
        raise ImportError("n_jobs needs the package joblib (pip install joblib)") from error
    # A job takes seconds: more than one at a time would only unbalance the workers.
    options = {"n_jobs": n_jobs, "batch_size": 1}
    try:
        parallel = joblib.Parallel(**options, return_as="generator_unordered")
    except ValueError:  # the backend, such as Ray's, returns lists only
        parallel = joblib.Parallel(**options)
    calls = (joblib.delayed(_numbered)(k, function, *values) for k, values in enumerate(arguments))
    yield from parallel(calls)


def _numbered(number, function, *arguments):
    return number, function(*arguments)
