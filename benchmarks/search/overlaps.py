"""Slices of tissue that overlap in part, and in full: the default search beside the true match."""

import itertools
import sys
import time
import warnings

import gwfast
from gwfast.spatial import pairwise_align

from ..common import runner
from ..common.simulated import overlapping_slices

# Shares that slices have in common, how far the share that is asked for is off, and the grids.
SHARED, OFF = (0.3, 0.4, 0.5, 0.6, 0.7), (-0.1, 0.0, 0.1)
GRIDS = "hexagonal", "jittered"


def problems():
    """Yield number, grid, share in common and the share asked for, None for all."""
    for number, (shared, off) in enumerate(itertools.product(SHARED, OFF)):
        yield number, GRIDS[number % 2], shared, round(shared + off, 2)
    for number, grid in enumerate(GRIDS, 100):
        yield number, grid, 1.0, None


def slices(options):
    """Print objectives over the objective from the true match: above 1.01 they are wrong."""
    rows, side = [], (options.sizes or [30])[0]
    wrong = trusted = sure = 0
    for number, grid, shared, asked in problems():
        if not {*options.only} <= {grid}:
            continue
        *pair, match = overlapping_slices(shared, number, grid, side)
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gwfast.ConvergenceWarning)
            found = pairwise_align(*pair, overlap=asked, n_threads=1)
            seconds = time.process_time() - began
            known = pairwise_align(*pair, overlap=asked, n_threads=1, init=match)
        ratio, converged = found.objective / known.objective, found.gw.converged
        wrong, trusted = wrong + (ratio > 1.01), trusted + (converged and ratio > 1.01)
        sure += converged and ratio <= 1.01
        row = [grid, f"{shared:g}", "all" if asked is None else f"{asked:g}", f"{ratio:.4f}"]
        rows.append([*row, found.gw.status, f"{found.gw.confidence:.3f}", f"{seconds:.1f}"])
        print(*rows[-1], file=sys.stderr, flush=True)
    heads = "grid", "shared", "overlap", "objective / known", "status", "confidence", "CPU s"
    runner.show(f"slices of {side} x {side} spots", heads, rows)
    right = len(rows) - wrong
    print(f"{wrong} of {len(rows)} wrong, {trusted} of these converged; of {right} right {sure}.\n")
