"""Kernels: arithmetic in C (``csrc/``), loops over rows in ``_kernels.pyx``, their
float64 NumPy twins in `reference`, thread counts in `threads`.

    solver (Python)  decides        -> what to compute, how often, when to stop
    _kernels.pyx     shares out     -> chunks of rows over OpenMP threads, partial sums
    csrc/            computes       -> one chunk, in vectors as wide as the processor's

The instruction set is chosen once, at import: the widest that the processor has, or
the one that the environment variable ``GWFAST_ISA`` names.
"""

import os

try:
    from . import _kernels
except ImportError as error:
    raise ImportError(
        f"the compiled kernels of gwfast do not load ({error}). The source tree has "
        "none unless it was installed with `pip install -e .`: leave the folder, or "
        "install it that way"
    ) from error

if os.environ.get("GWFAST_ISA"):
    try:
        _kernels.select_isa(os.environ["GWFAST_ISA"])
    except ValueError as error:
        raise ImportError(f"GWFAST_ISA: {error}") from None
