"""Kernels: arithmetic in C (``csrc/``), loops over rows in ``*.pyx``, their float64 NumPy twins in
`reference`, thread counts in `threads`, the limits of containers in `control_groups`.

    solver (Python)  decides        -> what to compute, how often, when to stop
    _rows.pyx        holds          -> matrices by rows, column sums
    _costs.pyx, _exponentials.pyx, _kernels.pyx, _products.pyx, _sparse.pyx
                     share out      -> chunks of rows over OpenMP threads, partial sums
    _descent.pyx     descends       -> small problems with entropy, a whole one a call
    _transport.pyx, _frank_wolfe.pyx, _exact_pairs.pyx
                     keep state     -> of problems without entropy, from step to step
    csrc/            computes       -> one chunk, in vectors as wide as the processor's

The instruction set is chosen once, at import: the widest that the processor has, or
the one that the environment variable ``GWFAST_ISA`` names.

To add a kernel, in this order:

1. ``reference.py``: the float64 twin, whose name and arguments the kernel will have;
2. ``csrc/row_kernels.inc`` (``matrix_``, ``product_``; ``float_`` for float32 alone): the
   arithmetic on some rows, a ``static`` function ``GWF_NAME(...)`` that neither allocates nor
   starts a thread, after its formula;
3. its slot, in ``GWF_KERNELS`` or ``GWF_FLOAT_KERNELS`` of ``csrc/gwfast.h``, and for Cython in
   ``_rows.pxd``. The tables of instruction sets are filled from these lists;
4. ``_costs.pyx`` (before a solve), ``_exponentials.pyx``, ``_kernels.pyx`` (Sinkhorn, sums),
   ``_products.pyx`` or ``_sparse.pyx``: a `Loop` over chunks of rows that checks every shape and
   adds up partial sums in the order of the chunks; and its signature in the stub (``.pyi``);
5. ``tests/helpers/kernel_cases.py``: tolerances and arguments under its name, by which
   ``tests/kernels`` compares it with the twin at awkward sizes, on every instruction set and for
   any number of threads (``test_twins.py`` fails where it is missing);
6. ``benchmarks/kernels/test_kernels.py``: the bytes or operations an entry that it is counted by,
   if solves spend time in it.

To add an instruction set, add a block to ``csrc/dispatch.c``.
"""

import contextlib
import os
from pathlib import Path

# Environment that OpenMP reads once, when it is loaded: how long a thread that waits keeps its core
# busy. By default that is milliseconds, and two solves on the same cores, or one beside
# any other work, then take 10 to 50 times as long, each waiting for threads that wait.
PATIENCE = {"GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "0"}


def _said():
    return not os.environ.keys().isdisjoint(["OMP_WAIT_POLICY", *PATIENCE])


@contextlib.contextmanager
def _patient():
    """Have OpenMP loaded inside with threads that wait asleep, unless the user has said
    how they should; the environment is as before after it.
    """
    settings = {} if _said() else PATIENCE
    os.environ.update(settings)
    try:
        yield
    finally:
        for name in settings:
            del os.environ[name]


def _loaded_files():
    try:
        return Path("/proc/self/maps").read_text()
    except OSError:  # not Linux
        return ""


def allowed_processors():
    """Return the processors that the calling thread may run on now."""
    try:
        return frozenset(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return frozenset(range(os.cpu_count() or 1))


_before, PROCESSORS = _loaded_files(), allowed_processors()
with _patient():
    from . import _rows

    _rows.openmp_max_threads()  # LLVM's OpenMP reads its environment at the first call

# True if OpenMP bound this thread to a place of its own when it was loaded (OMP_PROC_BIND), which
# says nothing about the processors of the process: `PROCESSORS`.
BOUND = allowed_processors() != PROCESSORS

# True if another package had loaded this OpenMP before, so that its threads wait busily.
IMPATIENT = (
    bool(_rows.openmp_runtime())
    and os.path.realpath(_rows.openmp_runtime()) in _before
    and not _said()
)

if os.environ.get("GWFAST_ISA"):
    try:
        _rows.select_isa(os.environ["GWFAST_ISA"])
    except ValueError as error:
        raise ImportError(f"GWFAST_ISA: {error}") from None
