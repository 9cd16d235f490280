from collections.abc import Sequence

from .arrays import Float64Array

LIMITS: list[str]

class Judge:
    def __init__(self, **numbers: float) -> None: ...
    def aim(self, change: float, fraction: float, thorough: bool) -> float: ...
    def tightened(
        self,
        error: float,
        change: float,
        value: float,
        before: float,
        limit: float,
        fraction: float,
    ) -> tuple[int, float]: ...
    def settles(
        self,
        done: int,
        change: float,
        moved: float,
        former: float,
        value: float,
        before: float,
        error: float,
        was_settled: bool,
    ) -> tuple[bool, bool]: ...
    def turns(self, n_returned: int, n_since_rise: int, change: float, then: float) -> bool: ...
    def fails(self, grown: float, reach: float, shrinks: float) -> tuple[bool, float, float]: ...
    def lead(self, products: Float64Array, reach: float) -> tuple[list[float], float] | None: ...

def has_stalled(changes: Sequence[float], floor: float, after: int) -> bool: ...
def next_action(goal: tuple[float, ...], look: tuple[float, ...]) -> tuple[int, float, float]: ...
def next_omega(omega: float, rate: float, most: float) -> float: ...
