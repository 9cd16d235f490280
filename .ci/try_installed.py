"""An installed gwfast, tried out: ``python .ci/try_installed.py``.

Aligns the bundled sample by each instruction set that the processor has, in a process
of its own, and once on the command line where that is installed. Wants OpenMP, the
translations that are known to be found, and one answer whatever the instruction set.
"""

import os
import subprocess
import sys
import tempfile

ALIGN = """
import gwfast
from gwfast import words

spanish, french, dictionary = words.load_sample()
result = gwfast.align(spanish, french, n_words=2000, refine=5)
scores = result.evaluate(dictionary)
print(result.gw.status, result.gw.gw_cost, scores["csls"].at[1])
"""


def python(*arguments, **changes):
    """What a new interpreter prints, away from any source tree."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, *arguments],
            env=os.environ | changes,
            cwd=folder,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=600,
        )
    return done.stdout


def main():
    facts = python("-c", "import gwfast; print(gwfast.__file__); gwfast.show_config()")
    print(facts)
    if "OpenMP  " in facts and "NO: every kernel" in facts:
        raise SystemExit("gwfast was built without OpenMP")
    listed = "from gwfast.kernels import _rows; print(*_rows.supported_isas())"
    costs = []
    for isa in python("-c", listed).split():
        status, cost, precision = python("-c", ALIGN, GWFAST_ISA=isa).split()
        print(f"{isa}: {status}, gw_cost {cost}, precision {precision}", flush=True)
        if status != "converged" or not float(precision) > 0.5:
            raise SystemExit(f"{isa} does not align the sample")
        costs.append(float(cost))
    if max(costs) > 1.001 * min(costs):
        raise SystemExit(f"instruction sets disagree: {costs}")
    try:
        import click  # noqa: F401
    except ImportError:
        print("the command line was left out: it is not installed")
    else:
        print(python("-m", "gwfast", "demo", "--quiet", "--output", "demo"))


if __name__ == "__main__":
    main()
