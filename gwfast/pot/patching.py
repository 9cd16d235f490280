"""Swap the functions of an installed POT for the functions of gwfast, and back."""

import collections
import contextlib
import functools
import importlib
import inspect
import sys
import threading
import types
import warnings
from collections.abc import Iterator

from ..utils.callers import outside
from .arrays import NoGradients
from .unified import LeftToPot, originals

__all__ = ["patch", "patched", "report", "unpatch"]
# Not the terms of losses: matrix products, which take as long in POT.
FAMILIES = [
    importlib.import_module(f".{name}", __package__)
    for name in (
        "barycenters",
        "batch",
        "coot",
        "dictionary",
        "entropic",
        "exact",
        "linear",
        "optim",
        "templates",
        "unbalanced",
        "unified",
    )
]
FUNCTIONS = {
    name: getattr(family, name)
    for family in FAMILIES
    for name in family.__all__
    if inspect.isfunction(getattr(family, name))
}
# Where POT has had them since 0.9.5; a version that lacks one keeps the others.
HOMES = ("ot", "ot.coot", "ot.gromov", "ot.optim", "ot.solvers")


def _twin(function):
    """Return what replaces POT's function: it leaves to POT what gwfast does not compute."""
    name, parameters = function.__name__, inspect.signature(function).parameters

    @functools.wraps(function)
    def twin(*args, **kwargs):
        pots, taken = originals.get(name), kwargs
        if pots is None:
            return function(*args, **kwargs)
        ignored = sorted(kwargs.keys() - parameters.keys())
        kinds = (x.kind for x in inspect.signature(pots).parameters.values()) if ignored else ()
        if inspect.Parameter.VAR_KEYWORD in kinds:
            taken = {key: x for key, x in kwargs.items() if key in parameters}
        try:
            result = function(*args, **taken)
        except (LeftToPot, NoGradients):
            return pots(*args, **kwargs)
        if ignored:
            message = f"{name}() ignores {', '.join(ignored)}: it has no such argument"
            warnings.warn(message, stacklevel=outside())
        _swap.count(name)
        return result

    twin.__module__ = __name__
    return twin


# Twins are other objects than the functions that users of this package hold, or to swap back would
# take these from them; they are not attributes of a module, or they would be swapped too.
twins = types.SimpleNamespace(**{name: _twin(function) for name, function in FUNCTIONS.items()})


def __getattr__(name: str) -> object:
    """Return a twin by its name, for pickle."""
    return getattr(twins, name)


class _Calls(collections.Counter):
    """How often each function of POT has been served here, by its name."""

    def __repr__(self):
        return ", ".join(f"{name} {n}" for name, n in self.most_common()) or "nothing"


class _Swap:
    """The state of POT's functions, swapped by `patch` or open contexts, and counts of calls."""

    def __init__(self):
        self._lock, self._asked, self._contexts = threading.RLock(), False, []
        self.calls = _Calls()

    def count(self, name):
        """Note a call that is served here."""
        with self._lock:
            for calls in (self.calls, *self._contexts):
                calls[name] += 1

    def change(self, *, asked=None, begins=None, ends=None):
        """Note what `patch` asks for and the context that begins or ends, and swap accordingly."""
        with self._lock:
            asked = self._asked if asked is None else asked
            # By identity: calls may be equal.
            contexts = [calls for calls in self._contexts if calls is not ends]
            contexts += [] if begins is None else [begins]
            if (asked or contexts) and not originals:
                pots_functions = _pots_functions()
                self.calls = _Calls()
                originals.update(pots_functions)
                _replace(
                    {function: getattr(twins, name) for name, function in pots_functions.items()}
                )
            elif originals and not (asked or contexts):
                _replace({getattr(twins, name): function for name, function in originals.items()})
                originals.clear()
            self._asked, self._contexts = asked, contexts


_swap = _Swap()


def patch() -> None:
    """Swap POT's functions for the functions of gwfast in every module that has them or imports
    them later. Raise an ImportError without POT; warn if it is of a version that the functions here
    have not been compared with. For the plans see `patched`.

    Packages with a loop of their own are served if they call `ot.optim.cg` with a
    Gromov-Wasserstein loss (PASTE does), `ot.sinkhorn` (GWTune) or `ot.emd`; a package that
    iterates by itself (Pamona) goes on as before. `report` says which calls were served here.
    """
    _swap.change(asked=True)


def unpatch() -> None:
    """Undo `patch`, see `patch`: every module gets back what it had, after the last `patched`."""
    _swap.change(asked=False)


def report() -> collections.Counter[str]:
    """Return the counts of calls that were served here since POT's functions were swapped, by
    function, see `patched`; printed as "nothing" if there were none. A call that POT solves itself,
    because it asks for gradients for example, does not count; calls that POT makes for it do.
    """
    return _Calls(_swap.calls)


@contextlib.contextmanager
def patched() -> Iterator[collections.Counter[str]]:
    """Return a context in which POT's functions are swapped, for all threads; see `patch`.

    Its value counts the calls served here during it, as `report` does. The same answers come
    faster, not better: like POT's, these functions descend once, from `G0` or the product of the
    masses, and end at a poor optimum if that leads there. Only the native
    `gwfast.gromov_wasserstein` searches among starts; if a result looks wrong, try that first.

    Examples
    --------
    >>> import numpy as np, ot, gwfast
    >>> C1 = np.abs(np.subtract.outer(np.arange(3.0), np.arange(3.0)))
    >>> with gwfast.pot.patched() as calls:
    ...     plan = ot.gromov.entropic_gromov_wasserstein(C1, C1, epsilon=1.0)
    >>> plan.shape, calls
    ((3, 3), entropic_gromov_wasserstein 1)
    """
    calls = _Calls()
    _swap.change(begins=calls)
    try:
        yield calls
    finally:
        _swap.change(ends=calls)


def _pots_functions():
    """Return POT's functions by name; warn of a POT that functions here were not compared with."""
    try:
        homes = [importlib.import_module(name) for name in HOMES]
    except ImportError as error:
        raise ImportError("swapping POT's functions needs POT: pip install POT") from error
    version = str(getattr(sys.modules["ot"], "__version__", "of no version"))
    compared = ("0.9.7",)  # versions of POT whose answers the functions here were compared with
    if ".".join(version.split(".")[:3]) not in compared:
        message = f"gwfast.pot was compared with POT {', '.join(compared)}, not with POT {version}"
        warnings.warn(f"{message}: answers, arguments and logs may differ", stacklevel=outside())
    # POT does not import it itself: it needs other packages.
    homes += [sys.modules[name] for name in sys.modules.keys() & {"ot.gnn"}]
    return {
        name: getattr(home, name) for home in homes for name in FUNCTIONS if hasattr(home, name)
    }


def _replace(swaps):
    """Put the values of a dict of functions where any module has the keys."""
    swaps = {id(old): (old, new) for old, new in swaps.items()}
    for module in list(sys.modules.values()):
        if not isinstance(module, types.ModuleType):
            continue
        # Past what a module may have in place of its attributes: lazy imports.
        namespace = object.__getattribute__(module, "__dict__")
        for key, value in list(namespace.items()):
            old, new = swaps.get(id(value), (None, None))
            if old is not None and value is old:
                namespace[key] = new
