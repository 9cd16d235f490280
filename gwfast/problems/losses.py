"""Losses between two costs, ``L(a, b) = f1(a) + f2(b) - h1(a) h2(b)`` (Peyre, Cuturi and Solomon,
ICML 2016, section 3).
"""

import dataclasses
from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

LossName: TypeAlias = Literal["square", "kl"]
LOG_FLOOR = 1e-18  # added to arguments of logarithms, as in POT: KL allows zero costs


@dataclasses.dataclass(frozen=True)
class Loss:
    """The functions of a loss and their derivatives, of ndarrays, elementwise: each `f` is convex,
    each `h` monotone.
    """

    name: LossName
    f1: Callable
    f2: Callable
    h1: Callable
    h2: Callable
    df1: Callable
    df2: Callable
    dh1: Callable
    dh2: Callable
    domain_min: float = -np.inf  # smallest cost that it is defined for
    shift_invariant: bool = False  # adding one number to the costs of both sides changes nothing
    keeps_factors: bool = False  # `h` is linear and `f` the square: products of factors stay so

    def check(self, cost, name):
        """Raise a ValueError that names the argument where a cost is out of the domain."""
        if self.domain_min > -np.inf and cost.min() < self.domain_min:
            raise ValueError(
                f"{name} must not be negative with loss={self.name!r}, got {cost.min()}"
            )


def _identity(x):
    return x


SQUARE = Loss(  # (a - b)^2
    "square",
    f1=np.square,
    f2=np.square,
    h1=_identity,
    h2=lambda b: 2.0 * b,
    df1=lambda a: 2.0 * a,
    df2=lambda b: 2.0 * b,
    dh1=np.ones_like,
    dh2=lambda b: np.full_like(b, 2.0),
    shift_invariant=True,
    keeps_factors=True,
)
LOSSES = {
    "square": SQUARE,
    "kl": Loss(  # a log(a / b) - a + b
        "kl",
        f1=lambda a: a * np.log(a + LOG_FLOOR) - a,
        f2=_identity,
        h1=_identity,
        h2=lambda b: np.log(b + LOG_FLOOR),
        df1=lambda a: np.log(a + LOG_FLOOR),
        df2=np.ones_like,
        dh1=np.ones_like,
        dh2=lambda b: 1.0 / (b + LOG_FLOOR),
        domain_min=0.0,
    ),
}
