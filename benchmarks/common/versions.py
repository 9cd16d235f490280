"""Versions and variables of the environment that belong beside every figure."""

import importlib.metadata
import os


def version(name):
    """A package's, or None where it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def installed(names):
    """``["numpy 2.4.0", ...]`` of the packages that are installed."""
    found = {name: version(name) for name in names}
    return [f"{name} {what}" for name, what in found.items() if what]


def blas_environment():
    """Variables that change BLAS, of all solvers, but for its number of threads."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("OPENBLAS_", "MKL_", "BLIS_")) and not name.endswith("_NUM_THREADS")
    }


def load():
    """The load average of the last minute, NaN where the system has none."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
