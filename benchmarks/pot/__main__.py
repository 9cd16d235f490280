"""``gwfast.pot`` beside POT itself: ``python -m benchmarks.pot [TABLE ...]``.

Tables: ``agreement`` (plans of 200 random problems), ``scgem`` (SCOT's search over
neighbors and epsilon), ``cells`` (its calls on PBMC, POT's of ten minutes at most),
``dense`` (1000 x 1000), ``small`` (5 to 100 points a side), ``exact`` (without
entropy, 300 to 2000 points a side), ``ties`` (hop distances without entropy),
``unbalanced``, ``barycenters`` (of 20 graphs), ``batch`` (100 problems a call),
``dictionary`` (atoms of 60 graphs), ``loops`` (what loops of others call), ``training``
(a step of a network of template graphs, with gradients; needs PyTorch, and POT's layer
torch_geometric).
All arrays are float64. Each table is made in a process of its own, with the threads of
``GWFAST_BENCH_THREADS`` for everything; calls that are compared take turns in it.
"""

import argparse
import importlib

from ..common import settings
from ..common.processes import make_tables
from .agreement import agreement_table
from .barycenters import barycenters_table
from .batch import batch_table
from .calls import OURS
from .dictionary import dictionary_table
from .exact import exact_table, ties_table
from .loops import loops_table
from .scot import cells_table, scgem_table
from .timings import dense_table, small_table
from .training import training_table
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
    "barycenters": barycenters_table,
    "batch": batch_table,
    "dictionary": dictionary_table,
    "loops": loops_table,
    "training": training_table,
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
    more = "--backend", options.backend
    make_tables(
        __spec__.name, options.tables or TABLES, more, settings.THREADS,
        ("numpy", "POT"),
    )  # fmt: skip


if __name__ == "__main__":
    main()
