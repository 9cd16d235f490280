"""Two slices of a simulated tissue, matched spot by spot: ``python -m
benchmarks.slices [SPOTS ...]``.

The tissue is that of `common.tissue`. A spot is right where its match, or its
barycentric projection, is within two spots of its true place. Beside the plan stand
what is nearest by expression alone, and the best rigid motion of the true places, above
which no rigid registration can come.
"""

import argparse
import time

from .common import markdown, settings, tissue
from .common.footprint import Footprint

TITLES = (
    "spots", "alpha", "plan", "CPU s", "wall s", "MB", "outer", "inner",
    "right, match", "right, mean", "by expression", "rigid",
)  # fmt: skip


def row_of(n, alpha, n_neighbors, memory_limit):
    """A row of the table."""
    from gwfast.spatial import pairwise_align

    first, second, truth = tissue.two_slices(n)
    footprint, began, used = Footprint(), time.perf_counter(), time.process_time()
    found = pairwise_align(
        (first.spots, first.features), (second.spots, second.features), alpha=alpha,
        dissimilarity="euclidean", method="entropic", n_neighbors=n_neighbors,
        memory_limit=memory_limit, n_threads=settings.THREADS,
    )  # fmt: skip
    used, wall = time.process_time() - used, time.perf_counter() - began
    footprint.look()
    matched, moved = found.gw.match(), found.transform()
    right = tissue.shares_right(first, second, truth, matched, moved)
    alone = tissue.nearest_by_expression(first, second)
    rigid = tissue.rigidly(first.spots, truth)
    others = tissue.shares_right(first, second, truth, alone, rigid)
    return (
        f"{len(first.spots)} x {len(second.spots)}", f"{alpha:g}",
        found.gw.coupling.form, f"{used:.0f}", f"{wall:.0f}", f"{footprint.above:.0f}",
        f"{found.gw.n_outer}", f"{found.gw.n_inner}",
        *(f"{one:.3f}" for one in (*right, *others)),
    )  # fmt: skip


def main(argv=None):
    parser = argparse.ArgumentParser(prog="benchmarks.slices", description=__doc__)
    parser.add_argument("spots", nargs="*", type=int, default=[5000, 20_000, 50_000])
    parser.add_argument("--alpha", type=float, default=0.03)
    parser.add_argument("--neighbors", type=int, default=7)
    parser.add_argument("--memory-limit", default="3GB")
    options = parser.parse_args(argv)
    given = options.alpha, options.neighbors, options.memory_limit
    rows = [row_of(n, *given) for n in options.spots]
    markdown.show("slices of tissue", TITLES, rows)


if __name__ == "__main__":
    main()
