"""Kernels: arithmetic in C (``csrc/``), loops over rows in ``_kernels.pyx``, their
float64 NumPy twins in `reference`, thread counts in `threads`.

    solver (Python)  decides        -> what to compute, how often, when to stop
    _kernels.pyx     shares out     -> chunks of rows over OpenMP threads, partial sums
    csrc/            computes       -> one chunk, in vectors as wide as the processor's

The instruction set is chosen once, at import: the widest that the processor has, or
the one that the environment variable ``GWFAST_ISA`` names.
"""

import os
from importlib.util import find_spec

if find_spec(f"{__name__}._kernels") is None:
    raise ImportError(
        "this gwfast has no compiled kernels. A source tree has none unless it was "
        "installed with `pip install -e .`: leave that folder, or install it that way"
    )

from . import _kernels

if os.environ.get("GWFAST_ISA"):
    try:
        _kernels.select_isa(os.environ["GWFAST_ISA"])
    except ValueError as error:
        raise ImportError(f"GWFAST_ISA: {error}") from None
