"""Limits of the floating point types that the solver computes with."""

import dataclasses
import functools
from typing import Literal, TypeAlias

import numpy as np

from .validation import one_of

Dtype: TypeAlias = Literal["float32", "float64"]


@dataclasses.dataclass(frozen=True)
class FloatPrecision:
    """A floating point type, of matrices and scalings, and the limits that come with it."""

    dtype: np.dtype
    max_exponent: float  # the largest exponent in a Gibbs kernel that no sum overflows with
    max_log_scaling: (
        float  # how far scalings may wander, in natural logarithms, before they are absorbed
    )
    max_cold_spread: float  # costs that differ by fewer epsilons need no potentials to start from
    stall_error: float  # error of marginals that any problem reaches, and no inner solution exceeds
    min_inner_tol: float
    max_inner_tol: float
    cost_rounding: float  # relative, of the objective, a difference of larger terms
    stall_change: float  # a change of an outer iteration that may be rounding at any epsilon
    min_epsilon: float  # least fraction of the costs; below, rounding moves exponents by tens

    @functools.cached_property
    def rounding(self):
        """Relative error of one operation."""
        return float(np.finfo(self.dtype).eps) / 2

    @property
    def itemsize(self):
        return self.dtype.itemsize


# Float32: e^88 is the largest number, and rows have up to e^15 entries. An entry of a kernel that
# underflowed was below e^-87, so with scalings up to e^25 each it would have carried e^-37 of the
# mass. Float64 alike, from e^709 and e^-708.
SINGLE = FloatPrecision(
    np.dtype(np.float32),
    max_exponent=60.0,
    max_log_scaling=25.0,
    max_cold_spread=0.0,
    stall_error=3e-6,
    min_inner_tol=3e-6,
    max_inner_tol=np.inf,
    cost_rounding=1e-6,
    stall_change=1e-4,
    min_epsilon=1e-9,
)
DOUBLE = FloatPrecision(
    np.dtype(np.float64),
    max_exponent=600.0,
    max_log_scaling=300.0,
    max_cold_spread=100.0,
    stall_error=1e-14,
    min_inner_tol=1e-14,
    max_inner_tol=1e-6,
    cost_rounding=1e-14,
    stall_change=1e-12,
    min_epsilon=1e-17,
)
PRECISIONS = {"float32": SINGLE, "float64": DOUBLE}


def as_precision(dtype):
    """Return the `FloatPrecision` of a dtype or of its name."""
    for precision in (SINGLE, DOUBLE):
        if dtype is precision.dtype:  # the name of a dtype takes microseconds
            return precision
    if isinstance(dtype, str) and dtype in PRECISIONS:
        return PRECISIONS[dtype]
    try:
        name = dtype if dtype is None else np.dtype(dtype).name
    except (SyntaxError, TypeError, ValueError):
        name = dtype
    return PRECISIONS[one_of(name, "dtype", PRECISIONS)]
