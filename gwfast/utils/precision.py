"""What the solver can expect of the numbers that it computes with."""

import dataclasses
from typing import Literal, TypeAlias

import numpy as np

from .validation import one_of

Dtype: TypeAlias = Literal["float32", "float64"]


@dataclasses.dataclass(frozen=True)
class FloatPrecision:
    """A floating point type and the limits that come with it."""

    # Of matrices and scalings; potentials, marginals and sums are always float64.
    dtype: np.dtype
    # Relative, of one operation.
    rounding: float
    # Largest exponent in a Gibbs kernel that no sum overflows with.
    peak: float
    # How far scalings may wander (in natural logarithms) before they are absorbed.
    drift: float
    # Costs that differ by less than this many epsilons need no potentials to start
    # from: all entries of their kernel are numbers of this type.
    direct: float
    # Error of the marginals below which rounding may keep it from falling, that is
    # reached on any problem, and that no inner solution exceeds.
    standstill: float
    inner_tol: float
    rough: float
    # Relative, of the objective, a difference of larger terms.
    cost_rounding: float
    # Change of an outer iteration that may be rounding at any epsilon.
    stalled: float
    # Fraction of the costs below which epsilon is refused: rounding these would move
    # what is exponentiated by tens.
    min_epsilon: float

    @property
    def itemsize(self):
        return self.dtype.itemsize


# Float32: e^88 is the largest number, and rows have up to e^15 entries. An entry of a
# kernel that underflowed was below e^-87, so with scalings up to e^25 each it would
# have carried e^-37 of the mass. Float64 alike, from e^709 and e^-708.
SINGLE = FloatPrecision(
    dtype=np.dtype(np.float32),
    rounding=float(np.finfo(np.float32).eps) / 2,
    peak=60.0,
    drift=25.0,
    direct=0.0,
    standstill=3e-6,
    inner_tol=3e-6,
    rough=np.inf,
    cost_rounding=1e-6,
    stalled=1e-4,
    min_epsilon=1e-9,
)
DOUBLE = FloatPrecision(
    dtype=np.dtype(np.float64),
    rounding=float(np.finfo(np.float64).eps) / 2,
    peak=600.0,
    drift=300.0,
    direct=100.0,
    standstill=1e-14,
    inner_tol=1e-14,
    rough=1e-6,
    cost_rounding=1e-14,
    stalled=1e-12,
    min_epsilon=1e-17,
)
PRECISIONS = {"float32": SINGLE, "float64": DOUBLE}
_OF_DTYPE = {precision.dtype: precision for precision in (SINGLE, DOUBLE)}


def as_precision(dtype):
    """The `FloatPrecision` of a name or of what NumPy takes for one."""
    if isinstance(dtype, str) and dtype in PRECISIONS:
        return PRECISIONS[dtype]
    if isinstance(dtype, np.dtype) and dtype in _OF_DTYPE:
        return _OF_DTYPE[dtype]
    try:
        name = dtype if dtype is None else np.dtype(dtype).name
    except (SyntaxError, TypeError, ValueError):
        name = dtype
    return PRECISIONS[one_of(name, "dtype", PRECISIONS)]
