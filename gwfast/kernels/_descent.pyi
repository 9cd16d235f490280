from typing import Any

from ._products import Panels
from .arrays import Float64Array, FloatArray

FIELDS: tuple[str, ...]
MORE: int
SETTLED: int
HANDED_ON: int
RULES: dict[str, int]

class Descent:
    plan: FloatArray
    cost: FloatArray
    f: Float64Array
    g: Float64Array
    rows: Float64Array
    cols: Float64Array
    former: Float64Array
    most: int
    def __init__(
        self,
        left: FloatArray,
        right: Panels,
        left_t: FloatArray | None,
        right_t: Panels | None,
        linear: FloatArray | None,
        plan: FloatArray,
        cost: FloatArray,
        p: Float64Array,
        q: Float64Array,
        row_cost: Float64Array,
        col_cost: Float64Array,
        potentials: tuple[Float64Array, ...] | None,
        losses: tuple[tuple[FloatArray, float], tuple[FloatArray, float]] | None,
        *,
        shift: float,
        stride: int,
        change: float,
        value: float,
        limits: dict[str, Any],
    ) -> None: ...
    def from_plan(self, plan: FloatArray) -> Descent: ...
    @property
    def done(self) -> int: ...
    @property
    def is_away(self) -> bool: ...
    @property
    def inner(self) -> tuple[int, float, bool]: ...
    @property
    def returns(self) -> int: ...
    @property
    def steps(self) -> Float64Array: ...
    @staticmethod
    def each(descents: list[Descent], n_threads: int = 1) -> list[int]: ...
