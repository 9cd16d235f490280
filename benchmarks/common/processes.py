"""Processes of their own for measurements."""

import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def command(module, *arguments):
    """The command that runs a module as ``python -m`` does, with this folder at the end
    of the path: where a gwfast is installed, that is the one that is measured, and not
    the sources, which may have no compiled kernels.
    """
    start = (
        f"import runpy, sys; path = [*filter(None, sys.path)]; root = {str(ROOT)!r};"
        f" sys.path = [root, *path]; import {__package__}; sys.path = [*path, root];"
        f" runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    )
    return [sys.executable, "-c", start, *map(str, arguments)]


def let_threads_sleep():
    """Wait as long as threads of a BLAS go on looking for work after a product: what
    runs next would share its cores with those of what ran before.
    """
    time.sleep(0.1)
