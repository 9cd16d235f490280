"""POT's names of arguments that have other names here."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# By POT's name: the name here, and in brackets a note. An argument without a name here is left out,
# and the note says why.
_SHARED = {
    "a": "p",
    "b": "q",
    "verbose": "progress",
    "log": "(what POT's log has the result has)",
    "warmstart": "(potentials are always kept)",
    "warn": "(results have a status, and warnings can be filtered)",
}
# Arguments of the functions of `ot.gromov` and of `ot.solve_gromov`.
QUADRATIC = _SHARED | {
    "C1": "x",
    "C2": "y",
    "Ca": "x",
    "Cb": "y",
    "M": "linear_cost",
    "loss_fun": 'loss ("square" or "kl")',
    "reg": "epsilon (half of POT's)",
    "G0": "init",
    "plan_init": "init",
    "m": "marginals (Partial(mass))",
    "reg_m": "marginals (Unbalanced(rho))",
    "reg_marginals": "marginals (Unbalanced(rho))",
    "unbalanced": "marginals (Unbalanced(rho))",
    "numItermax": "max_iter (or max_inner of SolverOptions if it is Sinkhorn's)",
    "stopThr": "options (marginal_tol of SolverOptions)",
    "tol_rel": "tol",
    "tol_abs": "tol (which is relative)",
    "solver": 'options (method of SolverOptions, "pgd" or "ppa")',
    "method": "options (method of SolverOptions)",
    "symmetric": "(costs are looked at)",
    "armijo": "(line searches are exact)",
    "random_state": "seed",
}
# Arguments of `ot.sinkhorn`.
LINEAR = _SHARED | {
    "M": "cost",
    "reg": "epsilon",
    "numItermax": "max_iter",
    "stopThr": "tol",
    "method": "(iterations go to the log domain where they have to)",
}


def knows_pot_names(
    names: Mapping[str, str], **renamed: str
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function to say what POT's argument is called here, in a TypeError, if one is
    passed that the function does not have. Names in `renamed` go before those in `names`.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        parameters, called = inspect.signature(function).parameters, function.__qualname__
        said = {}
        for theirs, text in names.items():
            name, bracket, note = text.partition("(")
            name, note = name.strip(), f" {bracket}{note}".rstrip()
            if not name:
                said[theirs] = f"{theirs} is left out{note}"
            elif renamed.get(name, name) in parameters:  # Python refuses the others
                said[theirs] = f"{theirs} is {renamed.get(name, name)}{note}"

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> T:
            theirs = sorted(kwargs.keys() & said.keys() - parameters.keys())
            if theirs:
                raise TypeError(
                    f"{called.removesuffix('.__init__')}() got unexpected keyword arguments; POT's "
                    f"names are others here: {', '.join(said[name] for name in theirs)}"
                )
            return function(*args, **kwargs)

        return checked

    return decorate
