"""``gwfast.pot`` beside POT itself: ``python -m benchmarks.pot [TABLE ...]``.

Tables: ``small`` (5 to 100 points; a step of each function on 5), ``dense`` (1000 points),
``ties`` (hop distances without entropy), ``scgem`` (SCOT's search over neighbors and epsilon) and
``cells`` (its calls on PBMC, POT's of ``--limit`` seconds at most).
"""

from ..common import runner
from . import calls, scot

TABLES = {
    "small": calls.small,
    "dense": calls.dense,
    "ties": calls.ties,
    "scgem": scot.scgem,
    "cells": scot.cells,
}


def main(argv=None):
    shared = "rounds", "sizes", "limit"
    options = runner.parse(__spec__.name, __doc__, TABLES, *shared, argv=argv)
    runner.make_tables(options, TABLES, ("POT",))


if __name__ == "__main__":
    main()
