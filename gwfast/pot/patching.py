"""Swap the functions of an installed POT for those of gwfast, and back."""

import contextlib
import importlib
import sys
import threading
import types

NAMES = (
    "BAPG_fused_gromov_wasserstein",
    "BAPG_fused_gromov_wasserstein2",
    "BAPG_gromov_wasserstein",
    "BAPG_gromov_wasserstein2",
    "entropic_fused_gromov_barycenters",
    "entropic_fused_gromov_wasserstein",
    "entropic_fused_gromov_wasserstein2",
    "entropic_gromov_barycenters",
    "entropic_gromov_wasserstein",
    "entropic_gromov_wasserstein2",
    "entropic_partial_fused_gromov_wasserstein",
    "entropic_partial_fused_gromov_wasserstein2",
    "entropic_partial_gromov_wasserstein",
    "entropic_partial_gromov_wasserstein2",
    "entropic_semirelaxed_fused_gromov_wasserstein",
    "entropic_semirelaxed_fused_gromov_wasserstein2",
    "entropic_semirelaxed_gromov_wasserstein",
    "entropic_semirelaxed_gromov_wasserstein2",
    "solve_gromov",
)
# Where POT has had them since 0.9.5; a version that lacks one keeps the others.
HOMES = ("ot.gromov", "ot.solvers")


class Twins:
    """The functions of this package once more, each an object of its own.

    What is swapped in must not be what users of this package hold, or swapping back
    would take it from them. Made on demand, and found again by pickle.
    """

    def __getattr__(self, name):
        if name not in NAMES:
            raise AttributeError(name)
        own = getattr(sys.modules[__package__], name)
        twin = types.FunctionType(
            own.__code__, own.__globals__, name, own.__defaults__, own.__closure__
        )
        twin.__kwdefaults__, twin.__doc__ = own.__kwdefaults__, own.__doc__
        twin.__module__, twin.__qualname__ = __name__, f"twins.{name}"
        setattr(self, name, twin)
        return twin


twins = Twins()
_lock = threading.RLock()


class _State:
    """POT's own functions by name, while they are swapped; and who wants them to be."""

    def __init__(self):
        self.originals, self.asked, self.contexts = {}, False, 0

    def settle(self):
        """Swap, or swap back, as is wanted."""
        wanted = self.asked or self.contexts > 0
        if wanted == bool(self.originals):
            return
        originals = _originals() if wanted else self.originals
        pairs = [(own, getattr(twins, name)) for name, own in originals.items()]
        if wanted:
            _replace(pairs)
        else:
            _replace((twin, own) for own, twin in pairs)
        self.originals = originals if wanted else {}


_state = _State()


def patch():
    """Swap POT's functions for those of gwfast in every module that has them.

    In POT's own modules and in those that had imported them from it before; a module
    that imports them later gets those of gwfast anyway. Doing it twice is doing it
    once.

    Raises
    ------
    ImportError
        If POT is not installed.
    """
    with _lock:
        _originals()
        _state.asked = True
        _state.settle()


def unpatch():
    """Undo `patch`: every module gets back what it had.

    Without `patch` nothing happens; inside of `patched`, only once that ends.
    """
    with _lock:
        _state.asked = False
        _state.settle()


@contextlib.contextmanager
def patched():
    """A context in which POT's functions are swapped, for all threads; see `patch`."""
    with _lock:
        _originals()
        _state.contexts += 1
        _state.settle()
    try:
        yield
    finally:
        with _lock:
            _state.contexts -= 1
            _state.settle()


def original(name):
    """POT's own function of that name while it is swapped, else None."""
    return _state.originals.get(name)


def _originals():
    """POT's functions as they are: its own, or those swapped in."""
    try:
        homes = [importlib.import_module(name) for name in HOMES]
    except ImportError as error:
        raise ImportError(
            "swapping POT's functions needs POT: pip install POT"
        ) from error
    return {
        name: getattr(home, name)
        for home in homes
        for name in NAMES
        if hasattr(home, name)
    }


def _replace(pairs):
    """Put the second of each pair where any module has the first."""
    swaps = {id(old): (old, new) for old, new in pairs}
    for module in list(sys.modules.values()):
        if not isinstance(module, types.ModuleType):
            continue
        # Past what a module may have in place of its attributes: lazy imports.
        namespace = object.__getattribute__(module, "__dict__")
        for key, value in list(namespace.items()):
            old, new = swaps.get(id(value), (None, None))
            if old is not None and value is old:
                namespace[key] = new
