"""Time, memory, accuracy of gwfast and of its peers: ``python -m benchmarks.report``.

Prints Markdown tables of the parts that are named, by default of all but ``tiled`` and
``large_graphs``, which take long. What is going on is told on the standard error.
"""

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .common import settings
from .common.processes import ROOT, command
from .kernels import tables as kernel_tables
from .solvers import jobs, tables
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
    if KERNELS not in parts:
        data["machine"] = measure_machine()

    def save():
        if options.json is not None:
            options.json.write_text(json.dumps(data, indent=1))

    runner = Runner(_told(options.limit), options.without)
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


def _told(default):
    """`jobs.run`, telling how it goes."""

    def run(job, limit=None):
        problem = " ".join(str(x) for x in job.get("problem", {}).values())
        label = f"{job.get('contender', job['task'])} ({problem})"
        print(f"{label} ...", end=" ", file=sys.stderr, flush=True)
        began = time.monotonic()
        result = jobs.run(job, limit or default)
        outcome = result.get("failed") or (
            f"more than {result['exceeded']:g} s" if "exceeded" in result else "done"
        )
        took = time.monotonic() - began
        print(f"{outcome}, {took:.0f} s in all", file=sys.stderr)
        return result

    return run


def measure_machine():
    """What `machine.describe` says."""
    job = {"task": "machine", "threads": settings.THREADS}
    result = _told(jobs.PATIENCE)(job)
    if "machine" not in result:
        sys.exit(f"The machine could not be measured: {result.get('failed')}")
    return result["machine"]


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
    facts = data.get("machine") or data[KERNELS]["machine_info"]["gwfast"]
    made = [machine(facts, data)]
    for name in CHOICES:
        if name not in data:
            continue
        made.append(f"### {name}")
        if name == KERNELS:
            made.append(kernel_tables.render(data[KERNELS]))
        elif name == "tiled":
            made.append(tables.tiled(data[name], facts["limits"]["sgemm"]))
        else:
            made.append(TABLES.get(name, tables.compared)(data[name]))
    return "\n\n".join(made)


def machine(facts, data):
    """Machine, versions, load and limits."""
    config = facts["config"]
    versions = ", ".join(
        f"{name} {version or 'not installed'}"
        for name, version in facts["versions"].items()
    )
    loads = [r["load"] for name in PARTS for r in data.get(name, ()) if "load" in r]
    pytest = data.get(KERNELS, {"benchmarks": ()})["benchmarks"]
    loads += [entry["extra_info"]["load"] for entry in pytest]
    load = f", load average {min(loads):.1f} to {max(loads):.1f}" if loads else ""
    environment = "".join(
        f", {name}={value}" for name, value in facts["environment"].items()
    )
    return (
        f"{facts['cpu']}, {facts['cpus']} CPUs, {facts['memory'] / 1e9:.0f} GB,"
        f" {facts['threads']} threads each where nothing else is said,"
        f" {config['platform']}, Python {config['python']}; {versions};"
        f" instruction set {config['instruction set']}; OpenMP {config['OpenMP']};"
        f" BLAS {config['BLAS']}{environment}. {data['date']}{load}.\n\n{limits(facts)}"
    )


def limits(facts):
    """What this machine can do at best, as it was measured."""
    found = facts["limits"]
    reads = "; ".join(
        f"{method} " + ", ".join(f"{rate:.1f}" for rate in rates.values())
        for method, rates in found["reads"].items()
    )
    products = ", ".join(f"{rate:.0f} {how}" for how, rate in found["sgemms"].items())
    after = ""
    if "read_after" in facts:
        after = f" ({facts['read_after']:.1f} when measured again at the end)"
    return (
        f"Limits: read {found['read']:.1f} GB/s{after}; SGEMM, GFLOP/s: {products}."
        f" Reads by method (1 to {facts['threads']} threads, GB/s): {reads}."
    )


if __name__ == "__main__":
    main()
