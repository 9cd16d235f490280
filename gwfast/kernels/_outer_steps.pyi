from ._rows import Panels
from .arrays import Float64Array, FloatArray

FIELDS: tuple[str, ...]
MORE: int
SETTLED: int
OTHERWISE: int

def outer_steps(
    factors: tuple[FloatArray, Panels],
    others: tuple[FloatArray, Panels] | None,
    linear: FloatArray | None,
    plan: FloatArray,
    cost: FloatArray,
    f: Float64Array,
    g: Float64Array,
    p: Float64Array,
    q: Float64Array,
    row_cost: Float64Array,
    col_cost: Float64Array,
    rows: Float64Array,
    cols: Float64Array,
    steps: Float64Array,
    done: int,
    epsilon: float,
    *,
    value: float = ...,
    constant: float = 0.0,
    settled: bool = False,
    last: bool = False,
    fraction: float = 0.01,
    least_fraction: float = 0.0,
    rough: float = ...,
    exact: float = 0.0,
    marginal: float = ...,
    least: float = 0.0,
    most_inner: int = 1000,
    peak: float = 60.0,
    drift: float = 25.0,
    tol: float = 0.0,
    floor: float = 0.0,
    rounding: float = 0.0,
    frobenius: bool = False,
    every: int = 1,
    proximal: bool = False,
) -> tuple[int, int, bool, float]: ...
