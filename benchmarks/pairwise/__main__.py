"""All pairs of many small spaces: ``python -m benchmarks.pairwise [TABLE ...]``.

Tables: ``graphs`` (steps between 12 to 29 nodes, against a loop over POT), ``shapes``
(distances between 50 to 100 points, against that and cajal). Problems are exact, with
the squared loss and uniform masses. Each table is made in a process of its own, where
those that are compared take turns. BLAS and OpenMP have one thread there, and gwfast
solves one pair at a time, or as many as ``GWFAST_BENCH_THREADS``.
"""

import argparse

from ..common.processes import make_tables
from .contenders import CAJAL, POT
from .spaces import graphs, shapes
from .timings import pairwise_table

TABLES = {"graphs": (graphs, (POT,)), "shapes": (shapes, (POT, CAJAL))}


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pairwise",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("tables", nargs="*", metavar="TABLE", help=f"{', '.join(TABLES)}; default all")
    add("--spaces", type=int, default=200, help="how many of them (default 200)")
    add("--turns", type=int, default=2, help="how often each is timed (default 2)")
    add("--one", action="store_true", help="internal")
    options = parser.parse_args(argv)
    unknown = set(options.tables) - set(TABLES)
    if unknown:
        parser.error(f"TABLE must be one of {', '.join(TABLES)}, got {unknown.pop()}")
    for name, least in (("spaces", 2), ("turns", 1)):
        if getattr(options, name) < least:
            came = getattr(options, name)
            parser.error(f"--{name} must be at least {least}, got {came}")
    if options.one:
        (name,) = options.tables
        make, peers = TABLES[name]
        pairwise_table(name, make(options.spaces), peers, options.turns)
        return
    more = "--spaces", options.spaces, "--turns", options.turns
    names = options.tables or TABLES
    make_tables(__spec__.name, names, more, 1, ("numpy", "POT", "cajal"))


if __name__ == "__main__":
    main()
