"""Swap the functions of an installed POT for those of gwfast, and back."""

import collections
import contextlib
import functools
import importlib
import inspect
import itertools
import sys
import threading
import types
import warnings
from collections.abc import Iterator

from ..utils.callers import outside
from . import (
    barycenters,
    batch,
    coot,
    dictionary,
    entropic,
    exact,
    linear,
    optim,
    templates,
    unbalanced,
    unified,
)
from .arrays import NoGradients
from .unified import LeftToPot, originals

__all__ = ["patch", "patched", "report", "unpatch"]
# Not the terms of losses: matrix products, which take as long in POT.
FAMILIES = (
    barycenters, batch, coot, dictionary, entropic, exact, linear, optim, templates,
    unbalanced, unified,
)  # fmt: skip
FUNCTIONS = {
    name: getattr(family, name)
    for family in FAMILIES
    for name in family.__all__
    if inspect.isfunction(getattr(family, name))
}
# Versions of POT whose answers the functions here have been compared with.
COMPARED = ("0.9.7",)
# Where POT has had them since 0.9.5; a version that lacks one keeps the others.
HOMES = ("ot", "ot.coot", "ot.gromov", "ot.optim", "ot.solvers")


def _twin(own):
    """What is put in the place of POT's function: `own`, as POT's callers expect it.

    Keywords that POT ignores are a warning here. Problems, and gradients, that are none
    of gwfast's are left to POT; the others are counted.
    """
    name, known = own.__name__, inspect.signature(own).parameters

    @functools.wraps(own)
    def twin(*args, **kwargs):
        pots, keywords = originals.get(name), kwargs
        if pots is None:
            return own(*args, **kwargs)
        ignored = sorted(kwargs.keys() - known.keys())
        if ignored and _takes_any_keyword(pots):
            kwargs = {key: x for key, x in kwargs.items() if key in known}
        try:
            found = own(*args, **kwargs)
        except (LeftToPot, NoGradients):
            return pots(*args, **keywords)
        if ignored:
            warnings.warn(
                f"{name}() ignores {', '.join(ignored)}: it has no such argument",
                stacklevel=outside(),
            )
        _swap.count(name)
        return found

    twin.__module__ = __name__
    return twin


def _takes_any_keyword(function):
    kinds = (x.kind for x in inspect.signature(function).parameters.values())
    return inspect.Parameter.VAR_KEYWORD in kinds


# What is swapped in must not be what users of this package hold, or swapping back would
# take it from them. Not among the attributes of a module, or that would be swapped too.
twins = types.SimpleNamespace(**{name: _twin(function) for name, function in FUNCTIONS.items()})


def __getattr__(name: str) -> object:
    """Twins by name, for pickle."""
    return getattr(twins, name)


class _Calls(collections.Counter):
    """How often each function of POT has been served here, by its name."""

    def __repr__(self):
        served = (f"{name} {n}" for name, n in self.most_common())
        return ", ".join(served) or "nothing"


class _Swap:
    """Who wants POT's functions to be swapped, and so whether they are; and which calls
    were served since.
    """

    def __init__(self):
        self._lock, self._asked, self._contexts = threading.RLock(), False, []
        self.calls = _Calls()

    def count(self, name):
        """Note a call that is served here."""
        with self._lock:
            for calls in (self.calls, *self._contexts):
                calls[name] += 1

    def change(self, *, asked=None, begins=None, ends=None):
        """Note what `patch` wants, and the calls of a context that begins or ends; and
        swap accordingly.
        """
        with self._lock:
            asked = self._asked if asked is None else asked
            # By identity: calls may be equal.
            contexts = [one for one in self._contexts if one is not ends]
            contexts += [] if begins is None else [begins]
            wanted = asked or contexts
            if wanted and not originals:
                found = _pots_functions()
                _compare_version()
                self.calls = _Calls()
                originals.update(found)
                _replace({own: getattr(twins, name) for name, own in found.items()})
            elif originals and not wanted:
                _replace({getattr(twins, name): own for name, own in originals.items()})
                originals.clear()
            self._asked, self._contexts = asked, contexts


_swap = _Swap()


def patch() -> None:
    """Swap POT's functions for those of gwfast in every module that has them.

    These are POT's own modules and those that have imported them from it; a module that
    imports them later gets those of gwfast anyway. A second call changes nothing.

    A package that has a loop of its own is reached where that calls `ot.optim.cg` with a
    Gromov-Wasserstein loss (as PASTE does), `ot.sinkhorn` (GWTune) or `ot.emd`. One that iterates
    by itself (Pamona) goes on as before; `report` says which calls were served here.

    Plans are those that POT's functions would end at, which is one descent from `G0` or
    the product of the masses; see `patched`.

    Raises
    ------
    ImportError
        If POT is not installed.

    Warns
    -----
    UserWarning
        If it is of a version that the functions here have not been compared with.

    Examples
    --------
    >>> import ot, gwfast.pot
    >>> gwfast.pot.patch()
    >>> ot.gromov.gromov_wasserstein.__module__
    'gwfast.pot.patching'
    >>> gwfast.pot.unpatch()
    """
    _swap.change(asked=True)


def unpatch() -> None:
    """Undo `patch`: every module gets back what it had.

    Without `patch` nothing happens; inside of `patched`, only once that ends.

    Examples
    --------
    >>> import ot, gwfast.pot
    >>> gwfast.pot.patch()
    >>> gwfast.pot.unpatch()
    >>> ot.gromov.gromov_wasserstein.__module__
    'ot.gromov._gw'
    """
    _swap.change(asked=False)


def report() -> collections.Counter[str]:
    """The calls of POT's functions that were served here since they were swapped.

    Returns
    -------
    Counter
        Calls by the name of the function; printed as "nothing" where there were none,
        as in packages that `patch` does not reach. Calls that POT solves itself, those
        that ask for gradients say, do not count; what they call that is here does.

    Examples
    --------
    >>> import numpy as np, ot, gwfast.pot
    >>> gwfast.pot.patch()
    >>> gwfast.pot.report()
    nothing
    >>> plan = ot.gromov.gromov_wasserstein(np.eye(3), np.eye(3))
    >>> gwfast.pot.unpatch()
    >>> gwfast.pot.report()
    gromov_wasserstein 1
    """
    return _Calls(_swap.calls)


@contextlib.contextmanager
def patched() -> Iterator[collections.Counter[str]]:
    """A context in which POT's functions are swapped, for all threads; see `patch`.

    What it gives counts the calls served here during it, as `report` does.

    It makes the same answers come faster, not better: like POT's, these functions
    descend once, from `G0` or the product of the masses, and where that leads to a poor
    optimum so does this. Only the native `gwfast.gromov_wasserstein` searches among
    starts; where a result looks wrong, try that before other settings.

    Raises
    ------
    ImportError
        If POT is not installed.

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
    """POT's functions."""
    try:
        homes = [importlib.import_module(name) for name in HOMES]
    except ImportError as error:
        message = "swapping POT's functions needs POT: pip install POT"
        raise ImportError(message) from error
    # POT does not import it itself: it needs other packages.
    homes += [sys.modules[name] for name in sys.modules.keys() & {"ot.gnn"}]
    pairs = itertools.product(homes, FUNCTIONS)
    return {name: getattr(home, name) for home, name in pairs if hasattr(home, name)}


def _compare_version():
    """Warn of a POT that the functions here have not been compared with."""
    version = str(getattr(sys.modules["ot"], "__version__", "of no version"))
    if ".".join(version.split(".")[:3]) not in COMPARED:
        warnings.warn(
            f"gwfast.pot was compared with POT {', '.join(COMPARED)}, and this is POT "
            f"{version}: its answers, arguments and logs may be others",
            stacklevel=outside(),
        )


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
