"""Fast entropic Gromov-Wasserstein alignment on CPUs.

Start with `align` (two embedding spaces in, correspondences out), or with
`gromov_wasserstein` where you have costs of your own.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from . import _source_tree
from ._version import __version__ as __version__

_source_tree.mend(sys.modules[__name__])

# OpenMP is loaded here, before what is imported after gwfast.
from . import kernels as kernels  # noqa: E402

# All else waits until it is asked for, since SciPy takes most of the time of an import. These
# rooms are public like the names of `_api`; packages they need may be missing, or take a second.
_ROOMS = "distributed", "gradients", "plot", "pot", "singlecell", "spatial", "words"
_HOMES = {"GromovWassersteinAligner": "alignment.estimator"}

if TYPE_CHECKING:
    from . import distributed as distributed
    from . import gradients as gradients
    from . import plot as plot
    from . import pot as pot
    from . import singlecell as singlecell
    from . import spatial as spatial
    from . import words as words
    from ._api import *  # noqa: F403
    from .alignment.estimator import GromovWassersteinAligner as GromovWassersteinAligner
else:

    def __getattr__(name):
        if name.startswith("_") and name != "__all__":
            pass
        elif name in _HOMES:
            home = import_module(f"{__name__}.{_HOMES[name]}")
            return globals().setdefault(name, getattr(home, name))
        elif name != "__all__" and find_spec(f"{__name__}.{name}"):
            return import_module(f"{__name__}.{name}")
        else:
            api = import_module(f"{__name__}._api")
            names = getattr(api, "__all__", ())  # none while its own import goes on
            if name == "__all__" and names:
                rooms = {*_ROOMS} - {"plot"}
                return sorted([*names, *_HOMES, "__version__", *rooms])
            if name in names:
                return globals().setdefault(name, getattr(api, name))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    names = {*sys.modules[__name__].__all__, *_ROOMS}
    return sorted(names if find_spec("matplotlib") else names - {"plot"})
