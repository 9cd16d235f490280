from typing import Any

from ._rows import Panels
from .arrays import Float64Array, FloatArray

FIELDS: tuple[str, ...]
MORE: int
SETTLED: int
OTHERWISE: int
RULES: dict[str, int]
MOST_STEPS: int

class Descent:
    plan: FloatArray
    cost: FloatArray
    f: Float64Array
    g: Float64Array
    rows: Float64Array
    cols: Float64Array
    row_cost: Float64Array
    col_cost: Float64Array
    def __init__(
        self,
        factors: tuple[FloatArray, Panels],
        others: tuple[FloatArray, Panels] | None,
        linear: FloatArray | None,
        plan: FloatArray,
        cost: FloatArray,
        p: Float64Array,
        q: Float64Array,
        row_cost: Float64Array,
        col_cost: Float64Array,
        potentials: tuple[Float64Array, ...] | None = None,
        losses: tuple[tuple[FloatArray, float], tuple[FloatArray, float]] | None = None,
        *,
        shift: float = 0.0,
        stride: int = 0,
        value: float = ...,
        fraction: float = 0.01,
        limits: dict[str, Any],
    ) -> None: ...
    @property
    def done(self) -> int: ...
    @property
    def is_away(self) -> bool: ...
    @property
    def steps(self) -> Float64Array: ...
    def descend(self, most: int, limits: dict[str, Any]) -> int: ...
    @staticmethod
    def each(descents: list[Descent], most: int, n_threads: int = 1) -> list[int]: ...
