"""Swap the functions of an installed POT for those of gwfast, and back."""

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
from . import (
    balanced,
    bapg,
    barycenters,
    exact,
    exact_barycenters,
    partial,
    semirelaxed,
    unbalanced,
    unified,
)
from .arrays import asks_for_gradients
from .unified import originals

__all__ = ["patch", "patched", "unpatch"]
FAMILIES = (
    balanced,
    bapg,
    barycenters,
    exact,
    exact_barycenters,
    partial,
    semirelaxed,
    unbalanced,
    unified,
)
FUNCTIONS = {
    name: getattr(family, name)
    for family in FAMILIES
    for name in family.__all__
    if inspect.isfunction(getattr(family, name))
}
NAMES = tuple(FUNCTIONS)
# Where POT has had them since 0.9.5; a version that lacks one keeps the others.
HOMES = ("ot.gromov", "ot.solvers")


def _twin(own):
    """What is put in the place of POT's function: `own`, as POT's callers expect it.

    Keywords that POT ignores are a warning here, and calls that ask for gradients are
    left to POT.
    """
    name, known = own.__name__, inspect.signature(own).parameters

    @functools.wraps(own)
    def twin(*args, **kwargs):
        pots = originals.get(name)
        if pots is None:
            return own(*args, **kwargs)
        if any(map(_asks_for_gradients, [*args, *kwargs.values()])):
            return pots(*args, **kwargs)
        ignored = sorted(kwargs.keys() - known.keys())
        if ignored and _takes_any_keyword(pots):
            warnings.warn(
                f"{name}() ignores {', '.join(ignored)}: it has no such argument",
                stacklevel=outside(),
            )
            kwargs = {key: x for key, x in kwargs.items() if key in known}
        return own(*args, **kwargs)

    twin.__module__ = __name__
    return twin


def _asks_for_gradients(x):
    """Of an argument, which may be a list of arrays."""
    return any(map(asks_for_gradients, x if isinstance(x, list | tuple) else [x]))


def _takes_any_keyword(function):
    kinds = (x.kind for x in inspect.signature(function).parameters.values())
    return inspect.Parameter.VAR_KEYWORD in kinds


# What is swapped in must not be what users of this package hold, or swapping back would
# take it from them. Not among the attributes of a module, or that would be swapped too.
twins = types.SimpleNamespace(
    **{name: _twin(function) for name, function in FUNCTIONS.items()}
)


def __getattr__(name: str) -> object:
    """Twins by name, for pickle."""
    return getattr(twins, name)


class _Swap:
    """Who wants POT's functions to be swapped, and so whether they are."""

    def __init__(self):
        self._lock, self._asked, self._contexts = threading.RLock(), False, 0

    def change(self, *, asked=None, contexts=0):
        """Note what `patch` and so many more contexts want, and swap accordingly."""
        with self._lock:
            found = _pots_functions() if asked or contexts > 0 else {}
            self._asked = self._asked if asked is None else asked
            self._contexts += contexts
            wanted = self._asked or self._contexts > 0
            if wanted and not originals:
                originals.update(found)
                _replace({own: getattr(twins, name) for name, own in originals.items()})
            elif originals and not wanted:
                _replace({getattr(twins, name): own for name, own in originals.items()})
                originals.clear()


_swap = _Swap()


def patch() -> None:
    """Swap POT's functions for those of gwfast in every module that has them.

    These are POT's own modules and those that have imported them from it; a module that
    imports them later gets those of gwfast anyway. A second call changes nothing.

    Plans are those that POT's functions would end at, which is one descent from `G0` or
    the product of the masses; see `patched`.

    Raises
    ------
    ImportError
        If POT is not installed.

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


@contextlib.contextmanager
def patched() -> Iterator[None]:
    """A context in which POT's functions are swapped, for all threads; see `patch`.

    It makes the same answers come faster, not better: like POT's, these functions
    descend once, from `G0` or the product of the masses, and where that leads to a poor
    optimum so does this. Only the native `gwfast.gromov_wasserstein` searches among
    starts. On the 177 cells of scGEM with graphs of 5 neighbors, say, patched calls
    give .107 of the cells their own type, as POT does, and the native one .542; where
    a result looks wrong, try that before other settings.

    Raises
    ------
    ImportError
        If POT is not installed.

    Examples
    --------
    >>> import numpy as np, ot, gwfast
    >>> C1 = np.abs(np.subtract.outer(np.arange(3.0), np.arange(3.0)))
    >>> with gwfast.pot.patched():
    ...     plan = ot.gromov.entropic_gromov_wasserstein(C1, C1, epsilon=1.0)
    >>> plan.shape
    (3, 3)
    """
    _swap.change(contexts=1)
    try:
        yield
    finally:
        _swap.change(contexts=-1)


def _pots_functions():
    """POT's functions as they are: its own, or those swapped in."""
    try:
        homes = [importlib.import_module(name) for name in HOMES]
    except ImportError as error:
        message = "swapping POT's functions needs POT: pip install POT"
        raise ImportError(message) from error
    return {
        name: getattr(home, name)
        for home in homes
        for name in NAMES
        if hasattr(home, name)
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
