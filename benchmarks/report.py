"""Tables of a benchmark run, in Markdown: ``python -m benchmarks.report [JSON]``.

Without an argument it runs the benchmarks first.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

# Objectives further apart than this are not the same result.
EQUAL = 0.005
REFERENCE = "gwfast"


def main(argv=None):
    parser = argparse.ArgumentParser(prog="benchmarks.report", description=__doc__)
    parser.add_argument("json", nargs="?", type=Path, help="of --benchmark-json")
    options = parser.parse_args(argv)
    if options.json is not None:
        data = json.loads(options.json.read_text())
    else:
        with tempfile.TemporaryDirectory() as folder:
            data = run(Path(folder, "results.json"))
    print(render(data))


def run(path):
    """Results of all benchmarks in this folder; they print to standard error."""
    folder = Path(__file__).resolve().parent
    pytest = [sys.executable, "-m", "pytest", ".", f"--benchmark-json={path}"]
    # From here, not the repository's root, so that an installed gwfast is the one that
    # is measured. Failures are part of the report.
    subprocess.run(pytest, cwd=folder, stdout=sys.stderr, check=False)
    if not path.exists() or not path.stat().st_size:
        sys.exit("No benchmark finished; see the messages above.")
    return json.loads(path.read_text())


def render(data):
    """All tables of a pytest-benchmark JSON."""
    groups = {}
    for entry in data["benchmarks"]:
        groups.setdefault(entry["group"], []).append(entry)
    parts = [machine(data)]
    for name, entries in groups.items():
        table = solvers if "contender" in entries[0]["extra_info"] else kernels
        parts.append(f"**{name}**\n\n{table(entries)}")
    if data.get("not_run"):
        rows = [[row["test"], row["outcome"], row["reason"]] for row in data["not_run"]]
        parts.append("**Not run**\n\n" + markdown(["test", "outcome", "reason"], rows))
    return "\n\n".join(parts)


def machine(data):
    """Machine, versions and limits, one paragraph."""
    info = data["machine_info"]
    own, cpu = info["gwfast"], info["cpu"].get("brand_raw", info["processor"])
    limits, config = own["limits"], own["config"]
    versions = {"gwfast": config["gwfast"], **own["versions"]}
    del versions["gwfast-ot"]
    installed = ", ".join(
        f"{name} {version or 'not installed'}" for name, version in versions.items()
    )
    reads = "; ".join(
        f"{method} " + ", ".join(f"{rate:.1f}" for rate in rates.values())
        for method, rates in limits["reads"].items()
    )
    loads = [entry["extra_info"]["load"] for entry in data["benchmarks"]]
    return (
        f"{cpu}, {own['cpus']} CPUs, {own['threads']} threads each,"
        f" {info['system']}, Python {info['python_version']}; {installed};"
        f" instruction set {config['instruction set']}; OpenMP {config['OpenMP']};"
        f" BLAS {config['BLAS']}. {data['datetime'][:10]}, load average"
        f" {min(loads):.1f} to {max(loads):.1f}.\n\n"
        f"Limits: read {limits['read']:.1f} GB/s"
        f" ({own['read_after']:.1f} when measured again at the end),"
        f" SGEMM {limits['sgemm']:.0f} GFLOP/s."
        f" Reads by method (1 to {own['threads']} threads, GB/s): {reads}."
    )


def kernels(entries):
    """Rates, from the least and the median time, and the median share of the limit."""
    unit = entries[0]["extra_info"]["unit"]
    titles = ["kernel", "ms, min", "median", f"{unit}, best", "median"]
    titles += [f"limit, {unit}", "% of limit", "error", "load"]
    rows = []
    for entry in entries:
        extra, stats = entry["extra_info"], entry["stats"]
        dimension = f" d={extra['d']}" if "d" in extra else ""
        rows.append(
            [
                extra["kernel"] + dimension,
                f"{1e3 * stats['min']:.3g}",
                f"{1e3 * stats['median']:.3g}",
                f"{extra['rate']:.1f}",
                f"{extra['rate_median']:.1f}",
                f"{extra['limit']:.1f}",
                f"{100 * extra['share']:.0f}",
                f"{extra['error']:.0e}",
                f"{extra['load']:.1f}",
            ]
        )
    return markdown(titles, rows)


def solvers(entries):
    """Times beside what they bought: objective, marginals, translations."""
    reference = next(
        (e for e in entries if e["extra_info"]["contender"] == REFERENCE), None
    )
    titles = ["solver", "settings", "s, min", "median", "runs", "gw_cost", "difference"]
    titles += ["equal", "marginal error", "P@1", "threads", "load", "time / gwfast"]
    rows = []
    for entry in entries:
        extra, stats = entry["extra_info"], entry["stats"]
        difference = ratio = equal = "?"
        if reference is not None:
            off = extra["gw_cost"] / reference["extra_info"]["gw_cost"] - 1
            difference, equal = f"{off:+.2%}", "yes" if abs(off) <= EQUAL else "**no**"
            ratio = f"{stats['median'] / reference['stats']['median']:.3g}"
        rows.append(
            [
                extra["contender"],
                extra["settings"],
                f"{stats['min']:.2f}",
                f"{stats['median']:.2f}",
                str(stats["rounds"]),
                f"{extra['gw_cost']:.5f}",
                difference,
                equal,
                f"{extra['marginal_error']:.0e}",
                f"{extra['p_at_1']:.3f}" if "p_at_1" in extra else "",
                str(extra["threads"]),
                f"{extra['load']:.1f}",
                ratio,
            ]
        )
    note = (
        "`difference` and `equal` (within 0.5 %) compare gw_cost with gwfast's. A plan"
        " that misses its marginals can have less of it than any that meets them."
    )
    return f"{markdown(titles, rows)}\n\n{note}"


def markdown(titles, rows):
    """A table whose columns of numbers, all but the first, align to the right."""
    rule = [":--"] + ["--:"] * (len(titles) - 1)
    cells = [titles, rule, *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


if __name__ == "__main__":
    main()
