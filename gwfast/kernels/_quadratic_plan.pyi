from .arrays import Float64Array

class QuadraticPlan:
    n: int
    m: int
    work: float
    def start(self, plan: Float64Array | None = None) -> None: ...
    @property
    def plan(self) -> Float64Array: ...
    @property
    def gradient(self) -> Float64Array: ...
