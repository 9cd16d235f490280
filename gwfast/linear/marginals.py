"""The values of the argument `marginals`."""

from __future__ import annotations

import dataclasses
import math
import numbers
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from ..utils.validation import as_positive, refuse_tensor


@dataclasses.dataclass(frozen=True)
class Partial:
    """Plans that move a part of the mass, with marginals of at most `p` and `q` (Chapel, Alaya and
    Gasso, NeurIPS 2020).

    Parameters
    ----------
    mass : float
        Mass of the plan, from 0 to 1, the total of `p` and of `q`.

    Examples
    --------
    >>> import gwfast
    >>> cost = [[0, 1, 3], [1, 0, 2], [3, 2, 0]]
    >>> result = gwfast.gromov_wasserstein(cost, cost, marginals=gwfast.Partial(0.5))
    >>> round(result.mass, 3)
    0.5
    """

    mass: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mass", as_positive(self.mass, "mass"))
        if self.mass > 1.0:
            raise ValueError(f"mass must be at most 1, got {self.mass}")


@dataclasses.dataclass(frozen=True)
class Unbalanced:
    """Plans that pay for other marginals than `p` and `q`, which may have any totals (Sejourne,
    Vialard and Peyre, NeurIPS 2021).

    The objective has ``rho_x KL2(T 1 | p) + rho_y KL2(T' 1 | q)`` beside the costs, and ``epsilon
    KL2(T | p q')`` in place of the entropy, with ``KL2(a | b) = KL(a x a | b x b)``.

    Parameters
    ----------
    rho : float or pair of floats
        Price of the row and of the column sums, in units of cost; if infinite, the sums are met.

    Examples
    --------
    >>> import gwfast
    >>> cost = [[0, 1, 3], [1, 0, 2], [3, 2, 0]]
    >>> gwfast.gromov_wasserstein(cost, cost, marginals=gwfast.Unbalanced(10)).mass < 1
    True
    """

    rho: float | tuple[float, float]

    @property
    def prices(self) -> tuple[float, float]:
        """Price of the row sums and of the column sums."""
        rho = self.rho
        return rho if isinstance(rho, tuple) else (rho, rho)

    def __post_init__(self) -> None:
        refuse_tensor(self.rho, "rho", "a number")
        rho: Any = self.rho
        if isinstance(rho, np.ndarray) and rho.ndim == 0:
            rho = rho.item()
        pair: Any = (rho, rho) if isinstance(rho, numbers.Real) else rho
        if isinstance(pair, str) or not hasattr(pair, "__len__"):
            raise TypeError(f"rho must be a number or a pair of them, got {type(rho).__name__}")
        if len(pair) != 2:
            raise ValueError(f"rho must be a number or a pair of them, got {len(pair)} of them")
        first, second = (
            math.inf if isinstance(x, numbers.Real) and x == math.inf else as_positive(x, "rho")
            for x in pair
        )
        object.__setattr__(self, "rho", (first, second))


GivenMarginals: TypeAlias = Literal["balanced", "semirelaxed"]
Marginals: TypeAlias = GivenMarginals | Partial | Unbalanced


def as_marginals(marginals: object) -> Marginals:
    """Return a checked `marginals`; raise TypeError or ValueError."""
    if isinstance(marginals, Partial | Unbalanced):
        return marginals
    choices = "'balanced', 'semirelaxed', Partial(mass) or Unbalanced(rho)"
    if not isinstance(marginals, str):
        raise TypeError(f"marginals must be {choices}, got {type(marginals).__name__}")
    for choice in get_args(GivenMarginals):
        if marginals == choice:
            return choice
    raise ValueError(f"marginals must be {choices}, got {marginals!r}")
