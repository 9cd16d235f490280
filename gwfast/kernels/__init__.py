"""Kernels: arithmetic in C (``csrc/``), loops over rows in ``*.pyx``, their
float64 NumPy twins in `reference`, thread counts in `threads`.

    solver (Python)  decides        -> what to compute, how often, when to stop
    _rows.pyx        holds          -> matrices by rows, packed factors, column sums
    _exponentials.pyx, _kernels.pyx, _products.pyx, _sparse.pyx
                     share out      -> chunks of rows over OpenMP threads, partial sums
    csrc/            computes       -> one chunk, in vectors as wide as the processor's

The instruction set is chosen once, at import: the widest that the processor has, or
the one that the environment variable ``GWFAST_ISA`` names.
"""

import contextlib
import os
from importlib.util import find_spec

if find_spec(f"{__name__}._rows") is None:
    raise ImportError(
        "this gwfast has no compiled kernels. A source tree has none unless it was "
        "installed with `pip install -e .`: leave that folder, or install it that way"
    )

# What OpenMP reads once, when it is loaded: how long a thread that waits keeps its core
# busy. By default that is milliseconds, and two solves on the same cores, or one beside
# any other work, then take 10 to 50 times as long, each waiting for threads that wait.
PATIENCE = {"GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "0"}


@contextlib.contextmanager
def _patient(names=("OMP_WAIT_POLICY", *PATIENCE)):
    """Have OpenMP loaded inside with threads that wait asleep, unless the user has said
    how they should; the environment is as before after it.
    """
    if any(name in os.environ for name in names):
        yield
        return
    os.environ.update(PATIENCE)
    try:
        yield
    finally:
        for name in PATIENCE:
            del os.environ[name]


with _patient():
    from . import _rows

if os.environ.get("GWFAST_ISA"):
    try:
        _rows.select_isa(os.environ["GWFAST_ISA"])
    except ValueError as error:
        raise ImportError(f"GWFAST_ISA: {error}") from None
