"""`show_config`: the facts that belong in a bug report."""

import ntpath
import platform

import numpy as np
import scipy

from .._version import __version__
from ..kernels import IMPATIENT, PATIENCE, _rows, threads


def versions() -> dict[str, str]:
    """Return the versions of the software that results depend on."""
    return {
        "gwfast": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }


def config() -> dict[str, str]:
    """Return build and run-time facts."""
    version, in_use = _rows.openmp_version(), _rows.openmp_runtime()
    if IMPATIENT:
        advice = " ".join(f"{name}={value}" for name, value in PATIENCE.items())
        in_use += f", loaded before gwfast: threads wait busily, unless {advice} is set"
    default, most = threads.resolve_n_threads(), _rows.openmp_max_threads()
    return {
        **versions(),
        "platform": platform.platform(),
        "OpenMP": f"yes ({version})" if version else "NO: every kernel is serial",
        "OpenMP runtime": _libraries("openmp") or "none",
        "of these, in use": in_use or "not known",
        "instruction set": f"{_rows.current_isa()} (of {', '.join(_rows.supported_isas())})",
        "BLAS": _libraries("blas") or "not recognized",
        "threads": f"{default} by default (OpenMP would take {most})",
    }


def show_config() -> None:
    """Print versions, OpenMP, instruction set, BLAS and thread counts.

    The default number of threads is ``OMP_NUM_THREADS`` where that is set, else the physical cores
    that the process may use. ``GWFAST_ISA`` forces an instruction set.

    Examples
    --------
    >>> import gwfast
    >>> gwfast.show_config()  # doctest: +ELLIPSIS
    gwfast ...
    """
    facts = config()
    width = max(map(len, facts))
    print("\n".join(f"{name:<{width}}  {fact}" for name, fact in facts.items()))


def _libraries(kind):
    """Return names, versions, files and threads of the loaded libraries of a kind."""
    return "; ".join(
        f"{info['internal_api']} {info['version'] or ''}".rstrip()
        + f" ({ntpath.basename(info['filepath'])}, {info['num_threads']} threads)"
        for info in threads.libraries(kind)
    )
