"""The cost of subnormal numbers: ``python -m benchmarks.subnormals``.

On Intel's processors arithmetic on subnormal numbers takes about a hundred times as long,
on AMD's Zen 4 it does not. Kernels flush them to zero; this program shows whether any are
left. It makes a dozen public calls on one thread, each in a process of its own, in turn as
they are and with flushing set for the whole process, and prints

- the ratio of both times, which means something on processors where subnormals are slow;
- how many subnormal numbers there are in the arrays that kernels have written;
- whether an operand of any instruction outside of kernels was subnormal, by the flag that
  the processor raises (x86 only).

The last two are the same on any processor. ``--rounds 0`` prints them alone.
"""

import functools
import importlib
import time
from statistics import median

import numpy as np

from .common import data, problems, runner

# Problems of common/problems.py, and POT's function on hops between cells, as SCOT calls it.
CALLS = (
    "words es-en 2000 product",
    "words es-en 2000 small",
    "clouds 2000 fused",
    "graph es-en 1000 product",
    "graph es-en 1000 least",
    "cells PBMC 1000",
    "cells PBMC 1000 float64",
    "points 500 small",
    "points 1200 least",
    "points 400 unbalanced",
    "points 400 semirelaxed",
    "SCOT",
)
RUNS = 3
MODULES = "_costs", "_exponentials", "_kernels", "_products", "_sparse"


def solver(name):
    """Return a function that makes the call of this name once, on one thread."""
    if name != "SCOT":
        return functools.partial(problems.solver(name), n_threads=1)
    from gwfast import pot

    costs = [data.hops(side, 35) for side in data.cells("scGEM")[:2]]
    masses = [np.full(len(cost), 1 / len(cost)) for cost in costs]
    call = pot.entropic_gromov_wasserstein
    return functools.partial(call, *costs, *masses, "square_loss", epsilon=1e-3)


def count(call):
    """Make a call; return the number of subnormal entries that kernels have written, and
    whether an operand outside of kernels was subnormal.
    """
    from gwfast.kernels import _rows

    found = [0]
    kernels = [
        (module, name, kernel)
        for module in (importlib.import_module(f"gwfast.kernels.{name}") for name in MODULES)
        for name, kernel in vars(module).items()
        if type(kernel).__name__ == "cython_function_or_method"
    ]
    before = _rows.float_controls()[0] & ~_rows.FLAGS
    for module, name, kernel in kernels:
        setattr(module, name, _counting(kernel, found))
    _rows.set_float_control(before)
    try:
        call()
        return found[0], bool(_rows.float_controls()[0] & _rows.SUBNORMAL_SEEN)
    finally:
        for module, name, kernel in kernels:
            setattr(module, name, kernel)


def _counting(kernel, found):
    """Return a kernel that adds up the subnormal entries of its arrays after a call."""
    from gwfast.kernels import _rows

    def counted(*arguments, **options):
        result = kernel(*arguments, **options)
        flags = _rows.float_controls()[0]
        for x in (*arguments, *options.values(), result):
            if isinstance(x, np.ndarray) and x.dtype in (np.float32, np.float64):
                # As whole numbers, so that counting raises no flag.
                bits = np.ascontiguousarray(x).view(f"u{x.itemsize}")
                size = bits & np.array(-1, f"i{x.itemsize}").view(bits.dtype) >> np.uint8(1)
                least = np.array(np.finfo(x.dtype).tiny).view(bits.dtype)
                found[0] += int(((size > 0) & (size < least)).sum())
        _rows.set_float_control(flags)
        return result

    return counted


def counted(job, tell):
    """Tell what `count` returns."""
    tell(found=count(solver(job["problem"]["name"])))


def timed(job, tell):
    """Tell the least CPU seconds of a few calls, with or without flushing."""
    from gwfast.kernels import _rows

    call, seconds = solver(job["problem"]["name"]), []
    if job["flushed"]:
        _rows.set_float_control(_rows.float_controls()[0] | _rows.FLUSH_BITS)
    for _ in range(1 + RUNS):
        began = time.process_time()
        call()
        seconds.append(time.process_time() - began)
    tell(found=min(seconds[1:]))


def main(argv=None):
    options = runner.parse(__spec__.name, __doc__, CALLS, "rounds", argv=argv, rounds=3)
    if options.serve:
        runner.serve({"counted": counted, "timed": timed}, options.serve)
        return
    rows = []
    for name in options.parts:

        def ask(task, name=name, **how):
            job = {"task": task, "problem": {"name": name}, **how}
            result = runner.ask(options.program, job)
            return result.get("found", result.get("failed"))

        found = ask("counted")
        if isinstance(found, str):
            rows.append([name, found, "", "", ""])
            continue
        times = ["", ""]
        if options.rounds:
            pairs = [
                (ask("timed", flushed=False), ask("timed", flushed=True))
                for _ in range(options.rounds)
            ]
            times[0] = f"{median(plain / flushed for plain, flushed in pairs):.2f}"
            times[1] = f"{min(plain for plain, _ in pairs):.3f}"
        rows.append([name, *times, found[0], "subnormal" if found[1] else "none"])
    heads = "call", "time over flushed", "seconds", "subnormal entries", "operands"
    runner.show("subnormal numbers", heads, rows)
    print(runner.facts((), 1))


if __name__ == "__main__":
    main()
