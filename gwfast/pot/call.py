"""The data of one call of any of these functions, checked."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Literal, ParamSpec, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..problems.geometry import DenseCost
from ..problems.losses import LOSSES, Loss
from ..utils.validation import (
    MASS_TOLERANCE,
    NO_LIMIT,
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
# The result of functions: an array of the caller's library; with `log` the array and a dict.
Plan: TypeAlias = NDArray[Any] | Any
Masses: TypeAlias = ArrayLike | None  # None is uniform
Seed: TypeAlias = int | np.random.RandomState | None
P = ParamSpec("P")


@dataclasses.dataclass(frozen=True, eq=False)
class Call:
    """The data of one call in NumPy arrays of one dtype; tensors that ask for gradients are in
    `asking`, by their names in `of`. `names` are the caller's names that differ from these, `total`
    is the sum of `p`, and `mass` the mass to match of partial problems.
    """

    arrays: Arrays
    names: Mapping[str, str]
    marginals: str
    loss: Loss
    symmetric: bool | None
    x: DenseCost
    y: DenseCost
    p: NDArray[Any]
    q: NDArray[Any] | None
    M: NDArray[Any] | None
    alpha: float
    G0: NDArray[Any] | None
    total: float
    mass: float | None
    asking: dict[str, Any]

    @classmethod
    def of(
        cls,
        C1: Any,
        C2: Any,
        p: Any = None,
        q: Any = None,
        loss_fun: str = "square_loss",
        symmetric: bool | None = None,
        G0: Any = None,
        M: Any = None,
        alpha: Any = 1.0,
        marginals: str = "balanced",
        *,
        m: float | None = None,
        names: Mapping[str, str] = MappingProxyType({}),
        random_state: Any = 0,
        use_target: bool = True,
    ) -> Call:
        """Return the record of arguments as they came; None is uniform, or the default."""

        def name(argument):
            return names.get(argument, argument)

        loss = as_loss(loss_fun, name("loss_fun"))
        is_semirelaxed = marginals == "semirelaxed"
        start = G0 if is_semirelaxed and isinstance(G0, str) else None
        arguments = {"M": M, "p": p, "C1": as_costs(C1, name("C1")), "C2": as_costs(C2, name("C2"))}
        arguments |= {"q": None if is_semirelaxed else q, "G0": None if start else G0}
        if M is not None and is_traced(alpha):
            arguments["alpha"] = alpha
        arrays = Arrays({name(argument): x for argument, x in arguments.items()}, traces=True)
        dtype = arrays.dtype
        x = checked_costs(arrays[name("C1")], name("C1"), dtype, loss)
        y = checked_costs(arrays[name("C2")], name("C2"), dtype, loss)
        M, G0 = arrays[name("M")], arrays[name("G0")]
        if M is None:
            alpha = 1.0
        else:
            M = as_matrix(M, name("M"), shape=(x.n, y.n)).astype(dtype, copy=False)
            alpha = as_weight(
                arrays[name("alpha")] if "alpha" in arguments else alpha, name("alpha")
            )
        p, mass = checked_masses(arrays[name("p")], name("p"), x.n), None
        q = None if is_semirelaxed else checked_masses(arrays[name("q")], name("q"), y.n)
        if marginals == "balanced":
            q = balanced(p, q, name("p"), name("q"))
        elif marginals == "partial":
            mass = _partial_mass(m, p, q, name)
        p, q = p.astype(dtype, copy=False), q if q is None else q.astype(dtype, copy=False)
        if G0 is not None:
            G0 = as_matrix(G0, name("G0"), shape=(x.n, y.n)).astype(dtype, copy=False)
            _check_start(G0, name("G0"), p if is_semirelaxed else None, name("p"))
        total = _total(p.astype(np.float64, copy=False))
        asking = {
            argument: arrays.asking[name(argument)]
            for argument in arguments
            if name(argument) in arrays.asking
        }
        symmetric = None if symmetric is None else bool(symmetric)
        call = cls(
            arrays, names, marginals, loss, symmetric, x, y, p, q, M, alpha, G0, total, mass, asking
        )
        if start is None:
            return call
        return dataclasses.replace(call, G0=named_plan(call, start, random_state, use_target))

    @property
    def shape(self) -> tuple[int, int]:
        return self.x.n, self.y.n

    def name(self, argument: str) -> str:
        """Return what messages call an argument of `of` or of a solver."""
        return self.names.get(argument, argument)

    def number(self, x: Any, argument: str, *, zero: bool = False) -> float:
        """Return a positive argument of a solver, or zero if allowed."""
        if type(x) is float and 0.0 < x < math.inf:  # what follows takes as long as an iteration
            return x
        return as_number(x, self.name(argument), zero=zero)

    def limit(self, x: Any, argument: str, minimum: int = 1) -> int:
        """Return an argument of a solver that is a count."""
        if type(x) is int and minimum <= x <= NO_LIMIT:
            return x
        return as_limit(x, self.name(argument), minimum)

    def refuse_gradients(self, but: Collection[str] = ()) -> None:
        """Raise NoGradients if any but those in these are asked for."""
        for argument in self.asking:
            if argument not in but:
                raise NoGradients(self.name(argument))


def as_loss(loss_fun, name):
    """Return the `Loss` that POT calls so."""
    return LOSSES[pots_choice(loss_fun, name, ("square_loss", "kl_loss")).removesuffix("_loss")]


def as_weight(x, name):
    """Return a number from 0 to 1."""
    x = as_number(x, name, zero=True)
    if x > 1:
        raise ValueError(f"{name} must be between 0 and 1, got {x}")
    return x


def checked_costs(x, name, dtype, loss=None):
    """Return the costs of a space in that dtype, in the domain of a loss if it is known."""
    x = as_table(x, name)
    check_square(x, name)
    costs = DenseCost.from_checked(x.astype(dtype, copy=False), name)
    if loss is not None:
        loss.check(costs.matrix, name)
    return costs


def checked_masses(x, name, size):
    """Return masses as they came, uniform for None: their total need not be one."""
    if x is None:
        return np.full(size, 1.0 / size)
    x = as_vector(x, name, size)
    check_masses(x, name)
    return x


def balanced(p, q, name_p, name_q):
    """Return `q` with the total of `p`, which it has but for rounding."""
    of_p, of_q = _total(p), _total(q)
    if not abs(of_p - of_q) <= MASS_TOLERANCE * of_p:
        totals = f"{of_p:.6g}, got {of_q:.6g}"
        raise ValueError(f"{name_q} must have the same total as {name_p}, {totals}")
    return q if of_p == of_q else q * (of_p / of_q)


def _total(masses):
    return float(np.add.reduce(masses))


def _partial_mass(m, p, q, name):
    """Return the mass to match."""
    smaller = min(_total(p), _total(q))
    if m is None:
        return smaller
    mass = as_number(m, name("m"))
    if mass > smaller * (1 + MASS_TOLERANCE):
        least = f"the smaller total of {name('p')} and {name('q')}, {smaller:.6g}"
        raise ValueError(f"{name('m')} must not be above {least}, got {mass:.6g}")
    return min(mass, smaller)


def _check_start(start, name, p, name_p):
    """Raise a ValueError unless this is a plan, whose rows sum to `p` unless that is None."""
    if (start < 0).any():
        i, j = np.argwhere(start < 0)[0]
        raise ValueError(f"{name} must not be negative, got {start[i, j]} at [{i}, {j}]")
    if not start.any():
        raise ValueError(f"{name} must have a positive sum, got zeros")
    if p is not None and not np.allclose(start.sum(1), p):
        error = abs(start.sum(1) - p).max()
        raise ValueError(
            f"{name} must have rows that sum to {name_p}, got a row off by {error:.2g}"
        )


def valued(function: Callable[P, Any], value: str, **defaults: Any) -> Callable[P, float | Any]:
    """Return the function whose name ends in 2: it returns the entry `value` of the log."""
    signature, name = inspect.signature(function), function.__name__
    parameters = dict(signature.parameters)
    parameters |= {key: parameters[key].replace(default=x) for key, x in defaults.items()}
    signature = signature.replace(
        parameters=list(parameters.values()), return_annotation=float | Any
    )
    places = {key: place for place, key in enumerate(parameters)}
    log_place = places["log"]

    @functools.wraps(function)
    def function2(*args: P.args, **kwargs: P.kwargs) -> Any:
        # To bind arguments to their names takes a tenth of a small problem.
        arguments = {key: x for key, x in defaults.items() if places[key] >= len(args)} | kwargs
        log = args[log_place] if len(args) > log_place else kwargs.get("log")
        asked = True if log else "value"
        if len(args) > log_place:
            args = *args[:log_place], asked, *args[log_place + 1 :]  # type: ignore[assignment]
        else:
            arguments["log"] = asked
        try:
            plan, *others, entries = function(*args, **arguments)
        except TypeError as error:
            error.args = (str(error).replace(f"{name}()", f"{name}2()"), *error.args[1:])
            raise
        if not others:
            entries["T"] = plan
        return (entries[value], entries) if log else entries[value]

    function2.__name__ = function2.__qualname__ = f"{name}2"
    function2.__annotations__ = function.__annotations__ | {"return": float | Any}
    function2.__signature__ = signature  # type: ignore[attr-defined]
    function2.__doc__ = f"""Return the loss of the plan, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.{name}2>`__.
    For parameters see `{name}`.

    Returns
    -------
    {value} : scalar
        Without entropy, unless the problem is unbalanced; of POT's type.
    log : dict
        If asked for, the log of `{name}`, with the plan as "T" if there is one.
    """
    return function2
