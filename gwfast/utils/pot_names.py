"""What POT calls the arguments that have other names here."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Ours(NamedTuple):
    """The name of an argument here, and what else to know of it. Without a name it is
    left out, and the note says why.
    """

    name: str
    note: str = ""


_SHARED = {
    "a": Ours("p"),
    "b": Ours("q"),
    "verbose": Ours("progress"),
    "log": Ours("", "what POT's log has the result has"),
    "warmstart": Ours("", "potentials are always kept"),
    "warn": Ours("", "results have a status, and warnings can be filtered"),
}
# Arguments of the functions of `ot.gromov` and of `ot.solve_gromov`.
QUADRATIC = _SHARED | {
    "C1": Ours("cost_x"),
    "C2": Ours("cost_y"),
    "Ca": Ours("cost_x"),
    "Cb": Ours("cost_y"),
    "M": Ours("linear_cost"),
    "loss_fun": Ours("loss", '"square" or "kl"'),
    "reg": Ours("epsilon", "half of POT's"),
    "G0": Ours("init"),
    "plan_init": Ours("init"),
    "m": Ours("mass", 'with marginals="partial"'),
    "reg_m": Ours("rho", 'with marginals="unbalanced"'),
    "reg_marginals": Ours("rho", 'with marginals="unbalanced"'),
    "unbalanced": Ours("rho", 'with marginals="unbalanced"'),
    "max_iter": Ours("max_outer"),
    "numItermax": Ours("max_outer", "or max_inner where it is Sinkhorn's"),
    "stopThr": Ours("marginal_tol"),
    "tol_rel": Ours("tol"),
    "tol_abs": Ours("tol", "which is relative"),
    "solver": Ours("method", '"pgd" or "ppa"'),
    "symmetric": Ours("", "costs are looked at"),
    "armijo": Ours("", "line searches are exact"),
    "random_state": Ours("seed"),
}
# Those of `ot.sinkhorn`.
LINEAR = _SHARED | {
    "M": Ours("cost"),
    "reg": Ours("epsilon"),
    "numItermax": Ours("max_iter"),
    "stopThr": Ours("tol"),
    "method": Ours("", "iterations go to the log domain where they have to"),
}


def knows_pot_names(
    names: Mapping[str, Ours], **renamed: str
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A decorator of functions that says what POT's argument is called here, in a
    TypeError, where one is passed that the function does not have.

    Names in `renamed` go before those in `names`; Python says what is wrong with those
    whose name here the function lacks.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        own = inspect.signature(function).parameters.keys()
        said = {}
        for theirs, (name, note) in names.items():
            name = renamed.get(name, name)
            if not name:
                said[theirs] = f"{theirs} is left out ({note})"
            elif name in own:
                said[theirs] = f"{theirs} is {name}" + (f" ({note})" if note else "")

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> T:
            theirs = sorted(name for name in kwargs.keys() - own if name in said)
            if theirs:
                called = function.__qualname__.removesuffix(".__init__")
                raise TypeError(
                    f"{called}() got unexpected keyword arguments; POT's names are "
                    f"others here: {', '.join(said[name] for name in theirs)}"
                )
            return function(*args, **kwargs)

        return checked

    return decorate
