"""Fresh processes that import the same gwfast as this one."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import gwfast


def environment(**changes):
    """Ours, with the gwfast of this process and no terminal; None removes a variable.

    PYTHONPATH matters where gwfast was built in place instead of installed.
    """
    variables = {
        **os.environ,
        "PYTHONPATH": str(Path(gwfast.__file__).resolve().parents[1]),
        **dict.fromkeys(("COLUMNS", "FORCE_COLOR", "NO_COLOR")),
        **changes,
    }
    return {name: value for name, value in variables.items() if value is not None}


def run_python(code, *options, folder=Path(__file__).parent, check=True, **changes):
    """Run `code`, by default away from the source tree: its gwfast folder holds no compiled
    kernels, but would be found first in the current folder."""
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        env=environment(**changes),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=check,
    )


@contextmanager
def full_disk(n_bytes):
    """A block in which no file of this process can grow beyond `n_bytes`."""
    resource = pytest.importorskip("resource")
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, former[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)
