"""Every hot kernel against the limits of the machine: ``python -m benchmarks.kernels``.

It runs test_kernels.py under pytest-benchmark. ``--sizes`` are rows and columns of the matrices,
``--only`` takes words of names of kernels.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ..common import runner


def row_of(entry):
    """Return rates from the least and the median time, and the median share of the limit."""
    extra, seconds = entry["extra_info"], entry["stats"]
    row = [extra["kernel"], *(f"{1e3 * seconds[key]:.3g}" for key in ("min", "median"))]
    row += [f"{extra[key]:.3g}" for key in ("rate", "rate_median", "limit")]
    return [*row, f"{100 * extra['share']:.0f}", f"{extra['error']:.0e}", f"{extra['load']:.1f}"]


def main(argv=None):
    options = runner.parse(__spec__.name, __doc__, (), "only", "sizes", argv=argv)
    if options.sizes:
        os.environ["GWFAST_BENCH_KERNELS"] = ",".join(map(str, options.sizes))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "results.json")
        chosen = ("-k", " and ".join(options.only)) if options.only else ()
        how = "-q", "-n0", f"--benchmark-json={path}", "--pyargs", __package__
        call = runner.command("pytest", *how, *chosen)
        # Failures are told there; the others are shown.
        subprocess.run(call, env=runner.environment(options.threads), stdout=sys.stderr)
        if not path.exists() or not path.stat().st_size:
            sys.exit("No benchmark finished; see the messages above.")
        entries = json.loads(path.read_text())["benchmarks"]
    groups = {}
    for entry in entries:
        groups.setdefault(entry["group"], []).append(entry)
    for title, group in groups.items():
        unit = group[0]["extra_info"]["unit"]
        heads = ["kernel", "ms, min", "median", f"{unit}, best", "median", f"limit, {unit}"]
        runner.show(title, [*heads, "% of limit", "error", "load"], map(row_of, group))
    print(runner.facts((), options.threads))


if __name__ == "__main__":
    main()
