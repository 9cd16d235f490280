"""Small problems, thousands of them: ``python -m benchmarks.small [TABLE ...]``.

Tables: ``batch`` (1000 problems of 20, 50 and 100 points in one call, against a loop
over POT and OTT-JAX under vmap), ``ott`` (single problems against OTT-JAX), ``starts``
(random starts of all pairs), ``search`` (the default search without entropy, against
POT from one start), ``symmetric`` (the default searches on permuted copies of graphs
with automorphisms), ``overhead`` (what solves take outside of their iterations). Single
calls of POT's functions are in ``python -m benchmarks.pot small``.

Each table is made in a process of its own, with the threads of
``GWFAST_BENCH_THREADS`` for everything; those that are compared take turns in it, and
one function computes all objectives from plans.
"""

import argparse
import warnings

from ..common import settings
from ..common.processes import make_tables
from .batch import batch_table
from .solves import ott_table, overhead_table, search_table, starts_table
from .symmetric import symmetric_table

TABLES = {
    "batch": batch_table,
    "ott": ott_table,
    "starts": starts_table,
    "search": search_table,
    "symmetric": symmetric_table,
    "overhead": overhead_table,
}


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.small",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("tables", nargs="*", metavar="TABLE", help=f"{', '.join(TABLES)}; default all")
    text = "of `batch`; `starts` and `search` have no more spaces and problems either"
    add("--problems", type=int, default=1000, help=f"{text} (default 1000)")
    add("--one", action="store_true", help="internal")
    options = parser.parse_args(argv)
    unknown = set(options.tables) - set(TABLES)
    if unknown:
        parser.error(f"TABLE must be one of {', '.join(TABLES)}, got {unknown.pop()}")
    if options.problems < 2:
        parser.error(f"--problems must be at least 2, got {options.problems}")
    if options.one:
        warnings.simplefilter("ignore")  # of limits, and of POT's divisions by zero
        TABLES[options.tables[0]](options.problems)
        return
    make_tables(
        __spec__.name,
        options.tables or TABLES,
        ("--problems", options.problems),
        settings.THREADS,
        ("numpy", "scipy", "POT", "ott-jax", "jax"),
    )


if __name__ == "__main__":
    main()
