"""Programs with their own solver and with gwfast: ``python -m benchmarks.clients [PROGRAM ...]``.

Each is run as its users run it, and once more with the lines changed that the page "Coming from
other packages" names: time, the program's own objective by one judge in float64, and the program's
measure of quality. Where a program is not on PyPI, the calls that it makes are written out; the row
of a program that is not installed says how to install it.
"""

import warnings
from statistics import median

from ..common import runner
from . import cells, slices, spaces

PROGRAMS = {**cells.PROGRAMS, **slices.PROGRAMS, **spaces.PROGRAMS}
PACKAGES = "POT", "cajal", "paste-bio", "paste2", "pamona", "novosparc"


def table(options):
    """Print the rows of programs, and the median of their ratios."""
    warnings.simplefilter("ignore")
    lines, ratios = [], []
    for name in options.parts:
        program = PROGRAMS[name]
        try:
            rows = list(program.rows(options.rounds))
        except (ImportError, FileNotFoundError) as error:
            how = f" (pip install {program.install})" if isinstance(error, ImportError) else ""
            lines.append([program.name, runner.reason(error) + how, *[""] * 10])
            continue
        lines += [[program.name, row[0], program.lines, *row[1:]] for row, _ in rows]
        ratios.append([median(kind) for kind in zip(*(pair for _, pair in rows), strict=True)])
    heads = ["program", "problem", "lines changed", "s, theirs, median [min]", "s, gwfast", "ratio"]
    heads += ["ratio, solver", "objective, theirs", "gwfast", "quality", "theirs", "gwfast"]
    runner.show("programs with their own solver and with gwfast", heads, lines)
    if ratios:
        whole, solvers = map(median, zip(*ratios, strict=True))
        print(f"Median of the ratios, one a program: {whole:.2f}, of solvers {solvers:.2f}\n")


def main(argv=None):
    options = runner.parse(__spec__.name, __doc__, PROGRAMS, "rounds", argv=argv, rounds=3)
    chosen, options.parts = options.parts, ["programs"]

    def programs(options):
        options.parts = chosen
        table(options)

    runner.make_tables(options, {"programs": programs}, PACKAGES)


if __name__ == "__main__":
    main()
