"""Use the installed package in a source tree whose ``gwfast`` has no compiled kernels."""

import filecmp
import platform
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType


def mend(package: ModuleType) -> None:
    """Make `package`, whose import has just begun, the installed package if it has no kernels.

    Workers of joblib and ``python -m`` in a source tree import the tree first.

    Raises
    ------
    ImportError
        If no package is installed, or if its sources differ.
    """
    here = Path(package.__file__ or "").resolve().parent
    if _has_kernels(here):
        return
    others = [path for path in sys.path if Path(path).resolve() != here.parent]
    spec = PathFinder.find_spec(package.__name__, others)
    installed = Path(spec.origin).parent if spec and spec.origin else None
    if spec is None or installed is None or not _has_kernels(installed):
        raise ImportError(
            f"the gwfast in {here.parent} has no kernels compiled for Python "
            f"{platform.python_version()}: install it with `pip install .` there, or "
            "with `pip install -e .` to work on it"
        )
    sources = [str(path.relative_to(here)) for path in here.rglob("*.py")]
    same, _, _ = filecmp.cmpfiles(here, installed, sources, shallow=False)
    if len(same) < len(sources):
        raise ImportError(
            f"Python found the sources of gwfast in {here.parent}, of another version than the "
            f"gwfast that is installed in {installed.parent}: leave that folder to use the "
            "installed one, or install this one with `pip install .` there (`pip install -e .` "
            "to work on it)"
        )
    package.__spec__, package.__loader__ = spec, spec.loader
    package.__file__, package.__path__ = spec.origin, [str(installed)]


def _has_kernels(folder):
    return PathFinder.find_spec("_rows", [str(folder / "kernels")]) is not None
