from ._rows import Panels
from .arrays import Float64Array, FloatArray

FIELDS: tuple[str, ...]
MORE: int
DECIDE: int
OTHERWISE: int

def outer_steps(
    left: FloatArray,
    right: Panels,
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
    epsilon: float,
    change: float,
    value: float = ...,
    *,
    fraction: float = 0.01,
    rough: float = ...,
    least: float = 0.0,
    most_inner: int = 100,
    peak: float = 60.0,
    drift: float = 25.0,
    least_change: float = 0.0,
    least_moved: float = 0.0,
    tol: float = ...,
    rounding: float = 0.0,
) -> tuple[int, int]: ...
