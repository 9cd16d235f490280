"""One call of any of these functions: its arguments checked, solved, and answered in
POT's words. The only place that knows the solver.
"""

import dataclasses
import itertools
import warnings
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..problems.losses import LOSSES
from ..results.result import ConvergenceWarning
from ..results.status import Status
from ..utils.callers import outside
from ..utils.validation import (
    MASS_TOLERANCE,
    as_matrix,
    as_square,
    as_vector,
    check_masses,
)
from ._solve import Solved, solve
from .arrays import Arrays, as_costs, as_limit, as_number

LossFun: TypeAlias = Literal["square_loss", "kl_loss"]
Solver: TypeAlias = Literal["PGD", "PPA"]
# What functions return: an array of the caller's library; with `log` it and a dict.
Plan: TypeAlias = NDArray[Any] | Any
LOSS_OF_POT = {"square_loss": "square", "kl_loss": "kl"}
METHOD_OF_POT = {"PGD": "pgd", "PPA": "ppa"}
# What logs call the loss; an f before "gw" says that costs between spaces are in it.
VALUES = {
    "balanced": "gw_dist",
    "semirelaxed": "srgw_dist",
    "partial": "partial_gw_dist",
}
# The status of plans that need no warning: POT's users limit iterations on purpose, and
# its default tolerances are beyond float32.
EXPECTED = (
    Status.CONVERGED,
    Status.MAX_OUTER,
    Status.PRECISION,
    Status.STOPPED,
)


def pots_choice(x, name, choices):
    """`x` if it is among `choices`; else an error in POT's words."""
    if not isinstance(x, str) or x not in choices:
        raise ValueError(f"Unknown {name}={x!r}: use one of {sorted(choices)}")
    return x


def method_of(solver, name="solver"):
    """gwfast's name of one of POT's solvers."""
    return METHOD_OF_POT[pots_choice(solver, name, METHOD_OF_POT)]


def random_generator(seed):
    """The generator of POT's `random_state`: NumPy's global one for None."""
    if seed is None:
        return np.random.mtrand._rand
    if isinstance(seed, np.random.RandomState):
        return seed
    return np.random.RandomState(seed)


class Problem:
    """The data of one call, in NumPy arrays of one dtype.

    Arguments are those of POT's functions, where None is uniform `p` and `q`, and no
    costs `M` between the spaces. `names` is what messages call those that have another
    name in the caller's signature.
    """

    def __init__(
        self,
        C1,
        C2,
        p,
        q,
        *,
        loss_fun,
        symmetric,
        G0=None,
        M=None,
        alpha=1.0,
        marginals="balanced",
        mass=None,
        names=None,
    ):
        self.names = names or {}
        loss_fun = pots_choice(loss_fun, self.name("loss_fun"), LOSS_OF_POT)
        self.loss = LOSSES[LOSS_OF_POT[loss_fun]]
        self.symmetric = None if symmetric is None else bool(symmetric)
        self.marginals = marginals
        C1, C2 = as_costs(C1, self.name("C1")), as_costs(C2, self.name("C2"))
        given = {"M": M, "C1": C1, "C2": C2, "p": p, "q": q, "G0": G0}
        self.arrays = Arrays({self.name(name): x for name, x in given.items()})
        self.C1 = self._matrix("C1", as_square)
        self.C2 = self._matrix("C2", as_square)
        self.loss.check(self.C1, self.name("C1"))
        self.loss.check(self.C2, self.name("C2"))
        shape = len(self.C1), len(self.C2)
        self.M = self._matrix("M", as_matrix, shape=shape)
        self.alpha = self._weight(alpha) if M is not None else 1.0
        p, q = self._masses("p", shape[0]), self._masses("q", shape[1])
        self.mass = None
        if marginals == "balanced":
            q = self._balanced(p, q)
        elif marginals == "partial":
            self.mass = self._partial_mass(mass, p, q)
        self.p = p.astype(self.arrays.dtype, copy=False)
        self.q = None
        if marginals != "semirelaxed":
            self.q = q.astype(self.arrays.dtype, copy=False)
        self.G0 = self._checked_start(shape)

    def name(self, name):
        """What messages call the argument `name`."""
        return self.names.get(name, name)

    def _matrix(self, name, check, **options):
        x = self.arrays[self.name(name)]
        if x is None:
            return None
        x = check(x, self.name(name), **options)
        return x.astype(self.arrays.dtype, copy=False)

    def _weight(self, alpha):
        name = self.name("alpha")
        alpha = as_number(alpha, name, zero=True)
        if alpha > 1:
            raise ValueError(f"{name} must be between 0 and 1, got {alpha}")
        return alpha

    def _masses(self, name, size):
        """Checked masses as they came: their total need not be one."""
        name = self.name(name)
        x = self.arrays[name]
        if x is None:
            return np.full(size, 1.0 / size)
        x = as_vector(x, name, size)
        check_masses(x, name)
        return x

    def _balanced(self, p, q):
        """`q` with the total of `p`, which it has but for rounding."""
        of_p, of_q = p.sum(), q.sum()
        if not abs(of_p - of_q) <= MASS_TOLERANCE * of_p:
            raise ValueError(
                f"{self.name('q')} must have the same total as {self.name('p')}, "
                f"{of_p:.6g}, got {of_q:.6g}"
            )
        return q * (of_p / of_q)

    def _partial_mass(self, mass, p, q):
        smaller = min(p.sum(), q.sum())
        if mass is None:
            return float(smaller)
        mass = as_number(mass, self.name("m"))
        if mass > smaller * (1 + MASS_TOLERANCE):
            raise ValueError(
                f"{self.name('m')} must not be above the smaller total of "
                f"{self.name('p')} and {self.name('q')}, {smaller:.6g}, got {mass:.6g}"
            )
        return float(min(mass, smaller))

    def _checked_start(self, shape):
        start, name = self._matrix("G0", as_matrix, shape=shape), self.name("G0")
        if start is None:
            return None
        if (start < 0).any():
            i, j = np.argwhere(start < 0)[0]
            raise ValueError(
                f"{name} must not be negative, got {start[i, j]} at [{i}, {j}]"
            )
        if not start.any():
            raise ValueError(f"{name} must have a positive sum, got zeros")
        if self.marginals == "semirelaxed" and not np.allclose(start.sum(1), self.p):
            raise ValueError(
                f"{name} must have rows that sum to {self.name('p')}, got a row off by "
                f"{abs(start.sum(1) - self.p).max():.2g}"
            )
        return start

    def solve(
        self,
        *,
        epsilon,
        max_iter,
        tol,
        start=None,
        method="pgd",
        max_inner=1000,
        inner_tol=1e-9,
        verbose=False,
        warn=True,
        **options,
    ):
        """The `Answer`; `start` goes before `G0`, `options` are those of the solver."""
        epsilon = as_number(epsilon, self.name("epsilon"))
        solved = solve(
            self.C1,
            self.C2,
            self.p,
            self.q,
            epsilon=epsilon,
            loss=self.loss.name,
            linear_cost=self.M,
            alpha=self.alpha,
            symmetric=self.symmetric,
            start=self.G0 if start is None else start.astype(self.arrays.dtype),
            method=method,
            marginals=self.marginals,
            mass=self.mass,
            max_iter=as_limit(max_iter, self.name("max_iter"), minimum=0),
            tol=as_number(tol, self.name("tol"), zero=True),
            max_inner=as_limit(max_inner, "numItermax"),
            inner_tol=as_number(inner_tol, "stopThr", zero=True),
            report=table(every=10) if verbose else None,
            **options,
        )
        if warn and (solved.advice or solved.status not in EXPECTED):
            advice = f": {solved.advice}" if solved.advice else ""
            message = f"Gromov-Wasserstein ended as {solved.status!r}{advice}"
            warnings.warn(message, ConvergenceWarning, stacklevel=outside())
        return Answer(self, solved, epsilon)


@dataclasses.dataclass(frozen=True)
class Answer:
    """A solved `Problem` in POT's words; `epsilon` too is POT's."""

    problem: Problem
    solved: Solved
    epsilon: float

    @property
    def linear(self) -> float:
        """The weighted term of the costs between the two spaces."""
        return (1 - self.problem.alpha) * self.solved.linear

    @property
    def quadratic(self) -> float:
        """The weighted term of the structures."""
        return self.problem.alpha * self.solved.quad

    @property
    def value(self) -> float:
        """The loss."""
        return self.linear + self.quadratic

    @property
    def total(self) -> Any:
        """The loss, as POT returns it."""
        return self.problem.arrays.back(self.value)

    def evidence(self) -> dict[str, Any]:
        """What logs have of the way to the plan."""
        return {"err": list(map(self.problem.arrays.back, self.solved.errors))}

    def result(self, log: bool, *, marginal_loss: bool = True) -> Plan:
        """The plan, or with `log` the plan and POT's log."""
        problem, solved, back = self.problem, self.solved, self.problem.arrays.back
        plan = solved.plan
        if problem.G0 is not None and np.may_share_memory(plan, problem.G0):
            plan = plan.copy()
        if not log:
            return back(plan)
        name = VALUES[problem.marginals]
        name = name if problem.M is None else name.replace("gw", "fgw")
        entries = self.evidence() | {name: self.total}
        if problem.M is not None:
            entries["lin_loss"] = back(self.linear)
            entries["quad_loss"] = back(self.quadratic)
        if not marginal_loss:
            entries["loss"] = back(self.value - problem.alpha * solved.separable)
        entries["status"] = solved.status
        return back(plan), entries


def table(every=1):
    """A function that prints POT's table of errors: every `every`-th time it is called,
    those it is called with.
    """
    rows = itertools.count()

    def add(*errors):
        row = next(rows)
        if row % every:
            return
        if row % 200 == 0:
            print(f"{'It.':5s}|{'Err':12s}\n" + "-" * 19)
        for error in errors:
            print(f"{row:5d}|{error:8e}|")

    return add
