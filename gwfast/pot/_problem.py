"""The data of one call of any of these functions, checked, as POT's callers name it."""

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..problems.geometry import DenseCost
from ..problems.losses import LOSSES
from ..utils.validation import (
    MASS_TOLERANCE,
    as_matrix,
    as_table,
    as_vector,
    check_masses,
    check_square,
)
from ._starts import named_plan
from .arrays import Arrays, NoGradients, as_costs, as_limit, as_number, is_traced, pots_choice

LossFun: TypeAlias = Literal["square_loss", "kl_loss"]
Solver: TypeAlias = Literal["PGD", "PPA"]
# What functions return: an array of the caller's library; with `log` it and a dict.
Plan: TypeAlias = NDArray[Any] | Any


class Problem:
    """The data of one call, in NumPy arrays of one dtype.

    `given` has the arguments of the call, as POT's functions name them: what is not in
    it is None, which is uniform `p` and `q`, and no costs `M` between the spaces.
    `names` is what the caller, and so messages too, call those that have other names.

    Attributes
    ----------
    asking : dict
        Tensors that ask for gradients, by POT's usual names.
    """

    def __init__(self, given, *, marginals="balanced", names=None):
        self._given, self._names, self.marginals = given, names or {}, marginals
        if names:
            known = {own: given[name] for own, name in names.items() if name in given}
            others = {own: x for own, x in given.items() if own not in names}
            self._given = others | known
        loss_fun = self.take("loss_fun", "square_loss")
        self.loss = as_loss(loss_fun, self.name("loss_fun"))
        symmetric, start = self.take("symmetric"), self.take("G0")
        self.symmetric = None if symmetric is None else bool(symmetric)
        has_name = marginals == "semirelaxed" and isinstance(start, str)
        named = {self.name(name): self.take(name) for name in ("M", "p")}
        for name in ("C1", "C2"):
            named[self.name(name)] = as_costs(self.take(name), self.name(name))
        if marginals != "semirelaxed":
            named[self.name("q")] = self.take("q")
        if not has_name:
            named[self.name("G0")] = start
        alpha = self.take("alpha") if self.take("M") is not None else None
        if is_traced(alpha):
            named[self.name("alpha")] = alpha
        self.arrays = Arrays(named, traces=True)
        own = {self.name(name): name for name in ("C1", "C2", "M", "p", "q", "alpha", "G0")}
        self.asking = {own[name]: x for name, x in self.arrays.asking.items()}
        self.x, self.y = self._costs("C1"), self._costs("C2")
        self.shape = self.x.n, self.y.n
        self.M = self._matrix("M")
        self.alpha = 1.0 if self.M is None else self._weight()
        p, q = map(self._masses, "pq", self.shape)
        self.mass, dtype = None, self.arrays.dtype
        if marginals == "balanced":
            q = balanced(p, q, self.name("p"), self.name("q"))
        elif marginals == "partial":
            self.mass = self._partial_mass(p, q)
        self.p = p.astype(dtype, copy=False)
        self.total = _total(self.p.astype(np.float64, copy=False))
        self.q = None
        if marginals != "semirelaxed":
            self.q = q.astype(dtype, copy=False)
        if has_name:
            self.G0 = named_plan(self, start, self.take("random_state", 0))
        else:
            self.G0 = self._checked_start()

    def refuse_gradients(self, but=()):
        """Raise NoGradients where any but those in these are asked for."""
        for name in self.asking:
            if name not in but:
                raise NoGradients(self.name(name))

    def name(self, name):
        """What messages call the argument `name`."""
        return self._names.get(name, name)

    def take(self, name, default=None):
        """The argument `name` as it came."""
        return self._given.get(name, default)

    def number(self, name, default=None, *, zero=False):
        """A positive (or zero, if asked) argument."""
        return as_number(self.take(name, default), self.name(name), zero=zero)

    def limit(self, name, default=None, minimum=1):
        """An argument that is a count."""
        return as_limit(self.take(name, default), self.name(name), minimum)

    def _costs(self, name):
        """The costs of a space."""
        name = self.name(name)
        return checked_costs(self.arrays[name], name, self.arrays.dtype, self.loss)

    def _matrix(self, name):
        """What is given between the two spaces, or None."""
        name = self.name(name)
        x = self.arrays[name]
        if x is None:
            return None
        x = as_matrix(x, name, shape=self.shape)
        return x.astype(self.arrays.dtype, copy=False)

    def _weight(self):
        traced = self.arrays[self.name("alpha")]
        given = self.take("alpha", 1.0) if traced is None else traced
        return as_weight(given, self.name("alpha"))

    def _masses(self, name, size):
        name = self.name(name)
        return checked_masses(self.arrays[name], name, size)

    def _partial_mass(self, p, q):
        smaller = min(_total(p), _total(q))
        if self.take("m") is None:
            return smaller
        mass = self.number("m")
        if mass > smaller * (1 + MASS_TOLERANCE):
            raise ValueError(
                f"{self.name('m')} must not be above the smaller total of "
                f"{self.name('p')} and {self.name('q')}, {smaller:.6g}, got {mass:.6g}"
            )
        return min(mass, smaller)

    def _checked_start(self):
        start, name = self._matrix("G0"), self.name("G0")
        if start is None:
            return None
        if (start < 0).any():
            i, j = np.argwhere(start < 0)[0]
            raise ValueError(f"{name} must not be negative, got {start[i, j]} at [{i}, {j}]")
        if not start.any():
            raise ValueError(f"{name} must have a positive sum, got zeros")
        if self.marginals == "semirelaxed" and not np.allclose(start.sum(1), self.p):
            raise ValueError(
                f"{name} must have rows that sum to {self.name('p')}, got a row off by "
                f"{abs(start.sum(1) - self.p).max():.2g}"
            )
        return start


def as_loss(loss_fun, name):
    """The `Loss` that POT calls so."""
    return LOSSES[pots_choice(loss_fun, name, ("square_loss", "kl_loss")).removesuffix("_loss")]


def as_weight(x, name):
    """A number from 0 to 1."""
    x = as_number(x, name, zero=True)
    if x > 1:
        raise ValueError(f"{name} must be between 0 and 1, got {x}")
    return x


def checked_costs(x, name, dtype, loss):
    """The costs of a space, in that dtype."""
    x = as_table(x, name)
    check_square(x, name)
    made = DenseCost.from_checked(x.astype(dtype, copy=False), name)
    loss.check(made.matrix, name)
    return made


def checked_masses(x, name, size):
    """Masses as they came, uniform for None: their total need not be one."""
    if x is None:
        return np.full(size, 1.0 / size)
    x = as_vector(x, name, size)
    check_masses(x, name)
    return x


def balanced(p, q, name_p, name_q):
    """`q` with the total of `p`, which it has but for rounding."""
    of_p, of_q = _total(p), _total(q)
    if not abs(of_p - of_q) <= MASS_TOLERANCE * of_p:
        raise ValueError(
            f"{name_q} must have the same total as {name_p}, {of_p:.6g}, got {of_q:.6g}"
        )
    return q if of_p == of_q else q * (of_p / of_q)


def _total(masses):
    return float(np.add.reduce(masses))
