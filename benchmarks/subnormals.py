"""The cost of subnormal numbers: ``python -m benchmarks.subnormals``.

On Intel's processors arithmetic on subnormal numbers takes about a hundred times as long,
on AMD's Zen 4 it does not. Kernels flush them to zero; this program shows whether any are
left. It makes a dozen public calls on one thread, each in a process of its own, in turn as
they are and with flushing set for the whole process, and prints

- the ratio of both times, which means something on processors where subnormals are slow;
- how many subnormal numbers there are in the arrays that kernels have written;
- whether an operand of any instruction outside of kernels was subnormal, by the flag that
  the processor raises (x86 only).

The last two are the same on any processor. ``--count`` makes each call once, and prints
them alone.
"""

import argparse
import functools
import importlib
import json
import subprocess
import sys
import time
import warnings

import numpy as np

from .common import markdown
from .common.machine import processor
from .common.processes import ROOT, command

# Problems of ablation/problems.py.
LISTED = (
    "words es-en 2000 product", "words es-en 2000 small", "clouds 2000 fused",
    "graph es-en 1000 product", "graph es-en 1000 least", "cells PBMC 1000",
    "cells PBMC 1000 float64", "points 500 small", "points 1200 least",
    "points 400 unbalanced", "points 400 semirelaxed",
)  # fmt: skip
TITLES = "call", "time over flushed", "seconds", "subnormal entries", "operands"
ROUNDS, RUNS = 3, 3
MODULES = "_costs", "_exponentials", "_kernels", "_products", "_sparse"


def scot():
    """POT's function on hops between cells, as SCOT calls it."""
    import gwfast.pot

    from .ablation.problems import cells

    costs = cells("scGEM", 177, 35)
    masses = [np.full(len(cost), 1 / len(cost)) for cost in costs]
    call = gwfast.pot.entropic_gromov_wasserstein
    return functools.partial(call, *costs, *masses, "square_loss", epsilon=1e-3)


def solver(name):
    """Return a function that makes the call of this name once, on one thread."""
    from .ablation.problems import solver as listed

    return scot() if name == "SCOT" else functools.partial(listed(name), n_threads=1)


def count(call):
    """Make a call; return the number of subnormal entries that kernels have written, and
    whether an operand outside of kernels was subnormal.
    """
    from gwfast.kernels import _rows

    found = [0]
    kernels = [
        (module, name, kernel)
        for module in map(importlib.import_module, (f"gwfast.kernels.{one}" for one in MODULES))
        for name, kernel in vars(module).items()
        if type(kernel).__name__ == "cython_function_or_method"
    ]
    before = _rows.float_controls()[0] & ~_rows.FLAGS
    for module, name, kernel in kernels:
        setattr(module, name, _counting(kernel, found))
    _rows.set_float_control(before)
    try:
        call()
        seen = bool(_rows.float_controls()[0] & _rows.SUBNORMAL_SEEN)
    finally:
        for module, name, kernel in kernels:
            setattr(module, name, kernel)
    return found[0], seen


def _counting(kernel, found):
    """Return a kernel that adds up the subnormal entries of its arrays after a call."""
    from gwfast.kernels import _rows

    def counted(*given, **named):
        made = kernel(*given, **named)
        flags = _rows.float_controls()[0]
        for x in (*given, *named.values(), made):
            if isinstance(x, np.ndarray) and x.dtype in (np.float32, np.float64):
                # As whole numbers, so that counting raises no flag.
                bits = np.ascontiguousarray(x).view(f"u{x.itemsize}")
                size = bits & np.array(-1, f"i{x.itemsize}").view(bits.dtype) >> np.uint8(1)
                least = np.array(np.finfo(x.dtype).tiny).view(bits.dtype)
                found[0] += int(((size > 0) & (size < least)).sum())
        _rows.set_float_control(flags)
        return made

    return counted


def serve(name, flushed, counts):
    """Print the least seconds of some calls, or what `count` returns."""
    from gwfast.kernels import _rows

    warnings.simplefilter("ignore")
    call = solver(name)
    if counts:
        print(json.dumps(count(call)))
        return
    if flushed:
        _rows.set_float_control(_rows.float_controls()[0] | _rows.FLUSH_BITS)
    call()
    seconds = []
    for _ in range(RUNS):
        began = time.process_time()
        call()
        seconds.append(time.process_time() - began)
    print(json.dumps(min(seconds)))


def _asked(name, *options):
    asked = command(__spec__.name, "--serve", name, *options)
    done = subprocess.run(asked, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    if done.returncode:
        sys.exit(f"{name} failed")
    return json.loads(done.stdout)


def main(argv=None):
    parser = argparse.ArgumentParser(prog="benchmarks.subnormals", description=__doc__)
    parser.add_argument("words", nargs="*", help="calls with one of these in their names")
    parser.add_argument("--count", action="store_true", help="count, and measure no time")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--flushed", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.serve:
        serve(options.serve, options.flushed, options.count)
        return
    rows = []
    for name in (*LISTED, "SCOT"):
        if options.words and not any(word in name for word in options.words):
            continue
        entries, seen = _asked(name, "--count")
        ratio = seconds = "-"
        if not options.count:
            pairs = [(_asked(name), _asked(name, "--flushed")) for _ in range(ROUNDS)]
            ratio = f"{np.median([plain / flushed for plain, flushed in pairs]):.2f}"
            seconds = f"{min(plain for plain, _ in pairs):.3f}"
        rows.append((name, ratio, seconds, entries, "subnormal" if seen else "none"))
        print(*rows[-1], file=sys.stderr, flush=True)
    markdown.show(f"subnormal numbers, one thread of {processor()}", TITLES, rows)


if __name__ == "__main__":
    main()
