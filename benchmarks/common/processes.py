"""Processes of their own for measurements."""

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

from . import settings
from .versions import blas_environment, installed, load

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


def make_tables(program, names, arguments, n_threads, packages):
    """Have a program make each of its tables in a process of its own, called with
    ``NAME --one``, and print the versions of packages and the load below them.
    """
    environment = {**os.environ, **settings.environment(n_threads)}
    for name in names:
        one = command(program, name, "--one", *arguments)
        if subprocess.run(one, env=environment, check=False).returncode:
            sys.exit(f"{name} failed, see above")
    facts = [f"Python {platform.python_version()}", *installed(packages)]
    facts += [f"{name}={value}" for name, value in blas_environment().items()]
    print(f"{', '.join(facts)}; {n_threads} threads; load {load():.1f}.")


def let_threads_sleep():
    """Wait as long as threads of a BLAS go on looking for work after a product: what
    runs next would share its cores with those of what ran before.
    """
    time.sleep(0.1)
