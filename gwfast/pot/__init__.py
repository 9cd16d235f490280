"""Gromov-Wasserstein functions with POT's names, arguments, conventions and answers, but faster:
``from gwfast import pot as gromov`` in place of ``from ot import gromov``; or `patch`, to swap the
functions of an installed POT for these. DIFFERENCES.md in this folder has the differences.
"""

# Each module lists its public names in `__all__`.
# ruff: noqa: F403

from typing import TYPE_CHECKING

from . import patching, terms
from .barycenters import *
from .batch import *
from .coot import *
from .dictionary import *
from .entropic import *
from .exact import *
from .linear import *
from .optim import *
from .patching import *
from .templates import *
from .terms import *
from .unbalanced import *
from .unified import *

# Type checkers take the names above as public if there is no literal list.
if not TYPE_CHECKING:
    modules = (patching, terms, *patching.FAMILIES)
    __all__ = sorted(name for module in modules for name in module.__all__)
    del modules
