"""Losses between two costs, ``L(a, b) = f1(a) + f2(b) - h1(a) h2(b)`` (Peyre, Cuturi
and Solomon, ICML 2016, section 3). To add one, add it here.
"""

import dataclasses
from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

LossName: TypeAlias = Literal["square", "kl"]
# As POT, so that zero costs (the diagonal of a distance) are allowed under KL.
LOG_FLOOR = 1e-18


@dataclasses.dataclass(frozen=True)
class Loss:
    """The four functions of a loss, and what holds for it.

    Attributes
    ----------
    name : str
    f1, f2, h1, h2 : callable
        Of ndarrays, elementwise. The `f` are convex, the `h` monotone.
    domain_min : float
        Smallest cost that it is defined for.
    shift_invariant : bool
        Whether adding one number to the costs of both sides changes nothing.
    keeps_factors : bool
        Whether the linearized cost of costs that are products is a product: `h` linear
        and `f` the square.
    """

    name: LossName
    f1: Callable
    f2: Callable
    h1: Callable
    h2: Callable
    domain_min: float = -np.inf
    shift_invariant: bool = False
    keeps_factors: bool = False

    def check(self, cost, name):
        """Raise a ValueError that names it where a cost is out of the domain."""
        if cost.min() < self.domain_min:
            raise ValueError(
                f"{name} must not be negative with loss={self.name!r}, got {cost.min()}"
            )


def _identity(x):
    return x


def _twice(x):
    return 2.0 * x


def _x_log_x(x):
    return x * np.log(x + LOG_FLOOR) - x


def _log(x):
    return np.log(x + LOG_FLOOR)


SQUARE = Loss(  # (a - b)^2
    "square",
    np.square,
    np.square,
    _identity,
    _twice,
    shift_invariant=True,
    keeps_factors=True,
)
# a log(a / b) - a + b
KL = Loss("kl", _x_log_x, _identity, _identity, _log, domain_min=0.0)
LOSSES = {loss.name: loss for loss in (SQUARE, KL)}
