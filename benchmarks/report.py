"""Time, memory, accuracy of gwfast and of its peers: ``python -m benchmarks.report``.

Prints Markdown tables of the parts that are named, by default of all but
``large_graphs``, which takes long. What is going on is told on the standard error.
"""

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from .common import facts, jobs
from .common.processes import ROOT, command
from .kernels import tables as kernel_tables
from .solvers import WORKER, tables
from .solvers.parts import LONG, PARTS, Runner

KERNELS = "kernels"
CHOICES = (KERNELS, *PARTS)
DEFAULT = [name for name in CHOICES if name not in LONG]
TABLES = {"growth": tables.grown, "threads": tables.threaded}


def main(argv=None):
    parser = argparse.ArgumentParser(prog="benchmarks.report", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(CHOICES))
    add = parser.add_argument
    add("--json", type=Path, help="file for the numbers; what else is there is kept")
    add("--render", type=Path, help="print the tables of such a file, run nothing")
    add("--limit", type=float, default=600, help="seconds for a solve (default 600)")
    add("--without", nargs="+", default=[], metavar="SOLVER", help="leave out solvers")
    options = parser.parse_args(argv)
    unknown = set(options.parts) - set(CHOICES)
    if unknown:
        parser.error(f"PART must be one of {', '.join(CHOICES)}, got {unknown.pop()}")
    if options.render is not None:
        print(render(json.loads(options.render.read_text())))
        return
    measure(options)


def measure(options):
    """Run the parts and print their tables; numbers are saved as they come."""
    data = {}
    if options.json is not None and options.json.exists():
        data = json.loads(options.json.read_text())
    data["date"] = f"{datetime.date.today()}"
    parts = options.parts or DEFAULT
    run = jobs.telling(WORKER, options.limit)
    if KERNELS not in parts:
        data["machine"] = facts.measured(run)

    def save():
        if options.json is not None:
            options.json.write_text(json.dumps(data, indent=1))

    runner = Runner(run, options.without)
    # Kernels first, as they measure the machine too.
    for name in sorted(parts, key=CHOICES.index):
        if name == KERNELS:
            data[KERNELS] = run_pytest()
            data["machine"] = data[KERNELS]["machine_info"]["gwfast"]
            save()
            continue
        data[name] = []
        for result in PARTS[name](runner):
            data[name].append(result)
            save()
    print(render(data))


def run_pytest():
    """Results of the benchmarks under pytest, which print to standard error."""
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary, "results.json")
        pytest = command("pytest", "-n0", __package__, f"--benchmark-json={path}")
        # Failures are part of the report.
        subprocess.run(pytest, cwd=ROOT, stdout=sys.stderr, check=False)
        if not path.exists() or not path.stat().st_size:
            sys.exit("No benchmark finished; see the messages above.")
        data = json.loads(path.read_text())
    for entry in data["benchmarks"]:
        del entry["stats"]["data"]  # every single time
    return data


def render(data):
    """All tables of one report, or of a pytest-benchmark JSON."""
    if "benchmarks" in data:
        data = {"date": data["datetime"][:10], KERNELS: data}
    known = data.get("machine") or data[KERNELS]["machine_info"]["gwfast"]
    loads = [r["load"] for name in PARTS for r in data.get(name, ()) if "load" in r]
    pytest = data.get(KERNELS, {"benchmarks": ()})["benchmarks"]
    loads += [entry["extra_info"]["load"] for entry in pytest]
    made = [facts.shown(known, data["date"], loads)]
    for name in CHOICES:
        if name not in data:
            continue
        made.append(f"### {name}")
        if name == KERNELS:
            made.append(kernel_tables.render(data[KERNELS]))
        else:
            made.append(TABLES.get(name, tables.compared)(data[name]))
    return "\n\n".join(made)


if __name__ == "__main__":
    main()
