from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .arrays import Float64Array

class Space:
    def __init__(
        self,
        values: Float64Array,
        transposed: Float64Array,
        masses: Float64Array,
        constant: float,
        largest: float,
        most: float,
        features: Float64Array | None = None,
        directions: Float64Array | None = None,
        ties: bool = False,
    ) -> None: ...

class ExactPairs:
    n_done: int
    costs: Float64Array
    converged: NDArray[np.bool_]
    def __init__(
        self,
        n_starts: int = 0,
        seed: int = 0,
        max_outer: int = 1000,
        tol: float = 1e-5,
        rounding: float = 0.0,
        linear: float = 0.0,
        least_change: float = 0.0,
        least_relative: float = 0.0,
        from_product: bool = True,
    ) -> None: ...
    def begin(
        self,
        xs: Sequence[Space],
        ys: Sequence[Space],
        plans: Float64Array | None = None,
        from_plans: bool = False,
        potentials: Float64Array | None = None,
    ) -> None: ...
    @staticmethod
    def go_on(descents: list[ExactPairs], most_seconds: float = ...) -> bool: ...
    def settle(self) -> None: ...
    @property
    def plan(self) -> Float64Array: ...
