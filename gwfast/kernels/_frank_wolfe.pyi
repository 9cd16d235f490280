from .arrays import Float64Array

MORE: int
CONVERGED: int
STALLED: int

class FrankWolfe:
    n: int
    m: int
    n_steps: int
    value: float
    gap: float
    step_size: float
    change: float
    def __init__(
        self,
        left: Float64Array,
        right: Float64Array,
        p: Float64Array,
        q: Float64Array,
        kind: str = "balanced",
        mass: float = 1.0,
        linear: Float64Array | None = None,
        losses: tuple[Float64Array | None, Float64Array | None] | None = None,
        others: tuple[Float64Array, Float64Array] | None = None,
        n_threads: int = 1,
        one_sided: bool = False,
    ) -> None: ...
    @property
    def plan(self) -> Float64Array: ...
    @property
    def gradient(self) -> Float64Array: ...
    def start(self, plan: Float64Array | None = None) -> None: ...
    def advance(
        self,
        most: int,
        tol: float = 0.0,
        floor: float = 0.0,
        least_change: float = 0.0,
        least_relative: float = 0.0,
        constant: float = 0.0,
        most_seconds: float = ...,
        trace: Float64Array | None = None,
    ) -> int: ...
    def descend_each(
        self,
        plans: Float64Array,
        ends: Float64Array,
        first: int,
        most: int,
        tol: float = 0.0,
        floor: float = 0.0,
        least_change: float = 0.0,
        least_relative: float = 0.0,
        constant: float = 0.0,
        most_seconds: float = ...,
    ) -> int: ...
    def potentials(self) -> tuple[Float64Array, Float64Array]: ...
