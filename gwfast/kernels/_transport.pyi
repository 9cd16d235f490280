import numpy as np
from numpy.typing import NDArray

from .arrays import Float64Array

ROUNDING: float
UNITS: int

class Transport:
    unit: float
    def __init__(self, p: Float64Array, q: Float64Array) -> None: ...
    def solve(self, cost: Float64Array) -> int: ...
    def entries(self) -> tuple[NDArray[np.intp], NDArray[np.intp], Float64Array]: ...
    def potentials(self) -> tuple[Float64Array, Float64Array]: ...
