"""Programs with their own solver and with gwfast: ``python -m benchmarks.clients [PROGRAM ...]``.

Each is run as its users run it, and once more with the lines changed that the page
"Coming from other packages" names: time, the program's own objective by one judge in
float64, and the program's measure of quality. Where a program is not on PyPI, the
calls that it makes are; where one is not installed, its row says how it would be.
"""

import argparse
import importlib
import os
from statistics import median

from ..common import settings
from ..common.markdown import show
from ..common.processes import make_tables

# Modules of this package.
PROGRAMS = (
    "scot", "paste", "paste2", "cajal", "gwtune", "pamona", "otdd", "moscot",
    "novosparc", "slotalign",
)  # fmt: skip
HEADS = (
    "program", "problem", "lines changed", "s, theirs, median [min]",
    "s, gwfast, median [min]", "ratio", "ratio, solver",
    "objective, theirs", "objective, gwfast",
    "quality", "theirs", "gwfast",
)  # fmt: skip


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.clients",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    names = ", ".join(PROGRAMS)
    add("programs", nargs="*", metavar="PROGRAM", help=f"{names}; default all")
    add(
        "--threads", type=int, default=settings.THREADS,
        help=f"of everything (default {settings.THREADS})",
    )  # fmt: skip
    add("--repeats", type=int, default=3, help="how often each is timed (default 3)")
    add("--one", action="store_true", help="internal")
    options = parser.parse_intermixed_args(argv)
    chosen = options.programs or list(PROGRAMS)
    unknown = set(chosen) - set(PROGRAMS)
    if unknown:
        parser.error(f"PROGRAM must be one of {names}, got {unknown.pop()}")
    for name in ("threads", "repeats"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(options, name)}")
    if options.one:
        table(chosen, options.repeats)
        return
    os.environ["GWFAST_BENCH_THREADS"] = str(options.threads)
    more = [*chosen[1:], "--repeats", options.repeats]
    make_tables(
        __spec__.name, chosen[:1], more, options.threads,
        ("numpy", "POT", "cajal", "paste-bio", "paste2", "pamona", "moscot", "ott-jax",
         "novosparc", "torch"),
    )  # fmt: skip


def table(programs, repeats):
    """Measure programs, and print their rows and the median of their ratios."""
    lines, ratios = [], {ratio: [], ratio_of_solvers: []}
    for name in programs:
        program = importlib.import_module(f"{__package__}.{name}")
        try:
            rows = list(program.rows(repeats))
        except (ImportError, FileNotFoundError) as error:
            lines.append([program.NAME, left_out(program, error)])
            lines[-1] += [""] * (len(HEADS) - len(lines[-1]))
            continue
        for of, some in ratios.items():
            some.append(median(map(of, rows)))
        lines += [cells(program, row) for row in rows]
    show("programs with their own solver and with gwfast", HEADS, lines)
    if ratios[ratio]:
        whole, solvers = map(median, ratios.values())
        print(f"Median of the ratios, one a program: {whole:.2f}", end="")
        print(f", of solvers {solvers:.2f}", end="\n\n")


def left_out(program, error):
    """Why a program has no figures."""
    if isinstance(error, FileNotFoundError):
        return f"no data: {error.filename or error}"
    return f"not installed: pip install {program.INSTALL} ({error})"


def ratio(row):
    """How many times as long theirs took."""
    return median(row.theirs_s) / median(row.ours_s)


def ratio_of_solvers(row):
    """The same of their solver alone."""
    return median(row.theirs_solver_s) / median(row.ours_solver_s)


def cells(program, row):
    """A row of the table."""
    times = [f"{median(some):.3g} [{min(some):.3g}]" for some in (row.theirs_s, row.ours_s)]
    objectives = [f"{value:.6g}" for value in row.objectives]
    qualities = [f"{value:.4g}" for value in row.qualities]
    return [
        program.NAME, row.problem, program.LINES, *times, f"{ratio(row):.2f}",
        f"{ratio_of_solvers(row):.2f}", *objectives, row.quality, *qualities,
    ]  # fmt: skip


if __name__ == "__main__":
    main()
