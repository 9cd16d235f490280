"""The command line of the experiments of the paper."""

import argparse
from pathlib import Path

from . import distances, dynamics, tables


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    runs = dict(
        table1=tables.run, table2=tables.run, dynamics=dynamics.run, distances=distances.run
    )
    parser.add_argument("experiment", choices=runs)
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="MUSE's or vecmap's files"
    )
    parser.add_argument(
        "--pairs", nargs="*", metavar="XX-YY", help="directions; default: the paper's"
    )
    parser.add_argument("--languages", nargs="*", default="en es fr de it ru zh".split())
    parser.add_argument("--epsilon", nargs="*", default=["auto"], help='numbers, "2%%" or "auto"')
    parser.add_argument("--scale-costs", nargs="*", choices=["none", "mean", "median", "max"])
    parser.add_argument("--n-words", type=int, help="words a side in the transport")
    parser.add_argument("--max-vocab", type=int, default=200_000)
    parser.add_argument("--convention", choices=["muse", "vecmap", "gwfast"])
    parser.add_argument("--rounds", type=int, default=10, help="rounds of refinement")
    parser.add_argument("--output", type=Path, default=Path(), help="folder of the pictures")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    options.convention = options.convention or (
        "vecmap" if options.experiment == "table2" else "muse"
    )
    defaults = {"dynamics": 15_000, "distances": 2000}
    options.n_words = options.n_words or defaults.get(options.experiment, 20_000)
    runs[options.experiment](options, options.experiment)


if __name__ == "__main__":
    main()
