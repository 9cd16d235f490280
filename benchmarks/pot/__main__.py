"""``gwfast.pot`` beside POT itself: ``python -m benchmarks.pot [TABLE ...]``.

Tables: ``agreement`` (plans of 200 random problems), ``scgem`` (SCOT's search over
neighbors and epsilon), ``cells`` (its calls on PBMC, POT's of ten minutes at most),
``dense`` (1000 x 1000), ``small`` (30 to 100 points a side), ``exact`` (without
entropy, 300 to 2000 points a side), ``ties`` (hop distances without entropy),
``unbalanced``.
All arrays are float64. Each table is made in a process of its own, with the threads of
``GWFAST_BENCH_THREADS`` for everything; calls that are compared take turns in it.
"""

import argparse
import importlib
import os
import platform
import subprocess
import sys

from ..common import settings
from ..common.processes import command
from ..common.versions import blas_environment, installed, load
from .agreement import agreement_table
from .calls import OURS
from .exact import exact_table, ties_table
from .scot import cells_table, scgem_table
from .timings import dense_table, small_table
from .unbalanced import unbalanced_table

TABLES = {
    "agreement": agreement_table,
    "scgem": scgem_table,
    "cells": cells_table,
    "dense": dense_table,
    "small": small_table,
    "exact": exact_table,
    "ties": ties_table,
    "unbalanced": unbalanced_table,
}


def make(name, backend):
    """Print one table, in this process."""
    modules = [importlib.import_module(one) for one in ("ot.gromov", backend)]
    try:
        TABLES[name](*modules)
    except FileNotFoundError as error:
        print(f"({name} left out: {error.filename or error})")


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pot",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("tables", nargs="*", metavar="TABLE", help=f"{', '.join(TABLES)}; default all")
    add("--backend", default=OURS, help="ot.gromov compares POT with itself")
    add("--one", action="store_true", help="internal")
    options = parser.parse_args(argv)
    unknown = set(options.tables) - set(TABLES)
    if unknown:
        parser.error(f"TABLE must be one of {', '.join(TABLES)}, got {unknown.pop()}")
    if options.one:
        make(options.tables[0], options.backend)
        return
    environment = {**os.environ, **settings.environment(settings.THREADS)}
    for name in options.tables or TABLES:
        one = command(__spec__.name, name, "--one", "--backend", options.backend)
        if subprocess.run(one, env=environment, check=False).returncode:
            sys.exit(f"{name} failed, see above")
    facts = [f"Python {platform.python_version()}", *installed(("numpy", "POT"))]
    facts += [f"{name}={value}" for name, value in blas_environment().items()]
    print(f"{', '.join(facts)}; {settings.THREADS} threads; load {load():.1f}.")


if __name__ == "__main__":
    main()
