"""``gwfast.pot`` beside POT itself: ``python -m benchmarks.pot [TABLE ...]``.

Tables: ``small`` (5 to 100 points; a step of each function on 5), ``dense`` (1000 points),
``exact`` (300 to 2000, without entropy), ``ties`` (hop distances without entropy), ``scgem``
(SCOT's search over neighbors and epsilon) and ``cells`` (its calls on PBMC).
"""

from ..common import runner

try:
    from . import calls
except ModuleNotFoundError as error:
    raise SystemExit(f"not measured, {runner.reason(error)}") from error

TABLES = {
    "small": calls.small,
    "dense": calls.dense,
    "exact": calls.exact,
    "ties": calls.ties,
    "scgem": calls.scgem,
    "cells": calls.cells,
}


def main(argv=None):
    shared = "rounds", "sizes"
    options = runner.parse(__spec__.name, __doc__, TABLES, *shared, argv=argv)
    runner.make_tables(options, TABLES, ("POT",))


if __name__ == "__main__":
    main()
