"""Large problems beside the machine's limits: ``python -m benchmarks.scale [PART]``.

Parts: ``words`` (Spanish and French, 10,000 and 20,000), ``clouds`` (a noisy rotation of 100,000
points, whose plan is never stored), ``million`` (of up to a million), ``tissue`` (two slices of up
to 50,000 spots, matched spot by spot), ``growth`` (how the time grows from 1000 to 100,000
points), ``low_rank`` (a fused problem of the slices beside OTT-JAX's low-rank solver as moscot
calls it), ``memory`` (what solves ask for beside what they take).

Every solve is in a process of its own. Tables are printed as parts end; what is going
on is told on the standard error.
"""

import argparse
import datetime
import json
from pathlib import Path

from ..common import facts, jobs
from . import WORKER
from .low_rank import INITIALIZERS
from .parts import PARTS

# Seconds for a solve, of which there are no peers to wait for.
LIMIT = 24 * 3600


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; default all")
    add("--sizes", nargs="+", type=int, metavar="N", help="points a side, of all parts")
    add("--limit", type=float, default=LIMIT, help="seconds for a solve (a day)")
    add("--json", type=Path, help="file for the numbers, written as they come")
    text = "of `low_rank`: most iterations of OTT-JAX (default 3000); 0 leaves them to it"
    add("--iterations", type=int, default=3000, metavar="N", help=text)
    text = f"of `low_rank`: {', '.join(INITIALIZERS)}; default the first two"
    start = {"nargs": "+", "choices": [*INITIALIZERS], "default": [*INITIALIZERS][:2]}
    add("--initializers", metavar="INITIALIZER", help=text, **start)
    options = parser.parse_args(argv)
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"PART must be one of {', '.join(PARTS)}, got {unknown.pop()}")
    run = jobs.telling(WORKER, options.limit)
    machine = facts.measured(run)
    data = {"date": f"{datetime.date.today()}", "machine": machine}
    print(facts.shown(machine, data["date"], [machine["load"][0]]), flush=True)
    for name in options.parts or PARTS:
        results = data[name] = []
        for result in PARTS[name].results(run, options):
            results.append(result)
            if options.json is not None:
                options.json.write_text(json.dumps(data, indent=1))
        print(f"\n### {name}\n", flush=True)
        if results:
            made = PARTS[name].table(results, machine["limits"]["sgemm"])
            print(made, flush=True)


if __name__ == "__main__":
    main()
