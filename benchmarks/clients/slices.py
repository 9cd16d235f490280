"""Slices of tissue for PASTE and PASTE2, and what both are measured by."""

import contextlib
import io
import warnings
from unittest import mock

import numpy as np

from ..common import pairs
from ..common.tissue import two_slices
from .rows import SOLVER, compared, fused

# How far the second slice of `resampled` is turned.
TURN = np.array([[0.0, 1.0], [-1.0, 0.0]])
REGIONS = "mass within one region"


def breast_cancer():
    """Coordinates and counts of two neighboring slices.

    Raises
    ------
    FileNotFoundError
    """
    files = [np.load(pairs.FOLDER / "tissue" / f"slice{k}.npz") for k in (1, 2)]
    return [(one["xy"].astype(float), one["counts"].astype(float)) for one in files]


def resampled(spots, counts, seed=0):
    """The same slice, turned, with its counts drawn anew, as PASTE's authors simulate
    slices whose spots are known.
    """
    rng, chances = np.random.default_rng(seed), counts + 1.0
    chances /= chances.sum(axis=1, keepdims=True)
    drawn = rng.multinomial(counts.sum(axis=1).astype(int), chances)
    return spots @ TURN, drawn.astype(float)


def simulated(n, share=1.0):
    """Two slices of a simulated tissue, and their layers; with a share below one each
    lacks a side of it.
    """
    first, second, _ = two_slices(n)
    kept = [
        side * one.places[:, 0] <= np.quantile(side * one.places[:, 0], share)
        for one, side in ((first, 1), (second, -1))
    ]
    both = list(zip((first, second), kept, strict=True))
    slices = [(one.spots[rows], one.features[rows]) for one, rows in both]
    return slices, [one.layers[rows] for one, rows in both]


def annotated(spots, table):
    """As both programs take a slice."""
    from anndata import AnnData

    made = AnnData(table)
    made.obsm["spatial"] = spots
    return made


def swapped_row(problem, align, module, name, solver, quality, score, repeats):
    """A row of a program's function, without arguments, beside the same with a function
    of its module, by name, replaced by ``solver(M, C1, C2, ..., alpha)``.
    """
    seen, before = {}, SOLVER.timed(getattr(module, name))

    @SOLVER.timed
    def noting(M, C1, C2, *args, alpha, **options):
        seen["problem"] = M, C1, C2, alpha
        return solver(M, C1, C2, *args, alpha=alpha, **options)

    def run(solver):
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with mock.patch.object(module, name, solver):
                return align()

    return compared(
        problem, lambda: run(before), lambda: run(noting),
        lambda plan: fused(plan, *seen["problem"]), quality, score, repeats,
    )  # fmt: skip


def within(labels):
    """A function from a plan to its share of mass between spots of the same label."""
    same = np.equal.outer(*labels)
    return lambda plan: plan[same].sum() / plan.sum()
