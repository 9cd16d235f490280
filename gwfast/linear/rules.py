"""The marginal rules by name, and how one is made from what a caller passes."""

import math
import numbers
from typing import Literal, TypeAlias

import numpy as np

from ..utils.validation import MASS_TOLERANCE, as_marginal, as_masses, as_positive, one_of
from .marginals import Balanced, Partial, Semirelaxed
from .unbalanced import Unbalanced

Marginals: TypeAlias = Literal["balanced", "semirelaxed", "partial", "unbalanced"]
Rho: TypeAlias = float | tuple[float, float]
RULES = {rule.name: rule for rule in (Balanced, Semirelaxed, Partial, Unbalanced)}


def as_rule(name, p, q, mass, shape, rho=None):
    """A rule from what a caller may pass; masses None are uniform, `mass` None is one.
    A TypeError or ValueError names the argument.
    """
    kind = RULES[one_of(name, "marginals", RULES)]
    if q is not None and not kind.takes_q:
        raise ValueError(f"q must be None with marginals={name!r}: it is free")
    if mass is not None and not kind.takes_mass:
        raise ValueError("mass must be None unless marginals='partial'")
    if kind is Unbalanced:
        return _unbalanced(p, q, rho, shape)
    if rho is not None:
        raise ValueError("rho must be None unless marginals='unbalanced'")
    p, q = as_marginal(p, "p", shape[0]), as_marginal(q, "q", shape[1])
    if mass is None:
        return kind.of(p, q)
    mass = as_positive(mass, "mass")
    if mass > 1.0:
        raise ValueError(f"mass must be at most 1, got {mass}")
    return kind.of(p, q, mass)


def _unbalanced(p, q, rho, shape):
    rho = as_rho(rho)
    p, q = as_masses(p, "p", shape[0]), as_masses(q, "q", shape[1])
    off = abs(p.sum() - q.sum())
    if rho == (math.inf, math.inf) and off > MASS_TOLERANCE * p.sum():
        raise ValueError(
            "rho must be finite on one side at least where p and q have different "
            f"totals, {p.sum():.6g} and {q.sum():.6g}"
        )
    return Unbalanced.of(p, q, rho)


def neutral(cost, p, q):
    """Return costs (n, m) with their mean wherever a point has no mass: no plan depends on
    these entries, but units would.
    """
    if p.all() and q.all():
        return cost
    seen = np.multiply.outer(p > 0, q > 0)
    return np.where(seen, cost, cost[seen].mean())


def as_rho(rho):
    """Prices of both marginals, from a number or a pair: positive, perhaps infinite."""
    if rho is None:
        raise ValueError("rho must be given with marginals='unbalanced'")
    pair = (rho, rho) if isinstance(rho, numbers.Real) else rho
    if isinstance(pair, str) or not hasattr(pair, "__len__"):
        raise TypeError(f"rho must be a number or a pair of them, got {type(rho).__name__}")
    if len(pair) != 2:
        raise ValueError(f"rho must be a number or a pair of them, got {len(pair)} of them")
    return tuple(
        math.inf if isinstance(one, numbers.Real) and one == math.inf else as_positive(one, "rho")
        for one in pair
    )
