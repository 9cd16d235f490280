"""How well `GWResult.confidence` is calibrated, and what it is fitted by.

A logistic function of a search's `Evidence` is fitted to whether it has found the
lowest known optimum, on all families but one, and judged on that one, in turn: what
holds within a family need not hold on another.
"""

import itertools
import json
import sys
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from gwfast.results.tables import Candidate
from gwfast.solvers.search.confidence import LEVEL, WEIGHTS, Evidence, confidence, winner_of

from ..common.markdown import show

# Penalty of squared weights of evidence in units of its deviation.
PENALTY = 10.0
# Edges of the bins of the reliability diagram.
EDGES = 0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0


def confidence_table(path=None, picture=None):
    """Tables of what `benchmarks.search families --json` has written at `path`, and the
    weights of a fit to all of it; with a path of a `picture` a reliability diagram.
    """
    if path is None or not Path(path).exists():
        print("(left out: needs --json FILE, as of `families`)", file=sys.stderr)
        return
    rows = []
    for row in json.loads(Path(path).read_text()):
        tried = [Candidate(**one) for one in row["candidates"]]
        if not winner_of(tried).startswith("isomorphism"):
            rows.append((row["family"], Evidence.of(tried, row["status"]), row["found"]))
    families, evidence, found = zip(*rows, strict=True)
    families, found = np.array(families), np.array(found, dtype=float)
    evidence, said = np.array(evidence), np.zeros(len(found))
    for family in set(families):
        left_out = families == family
        weights = fitted(evidence[~left_out], found[~left_out])
        said[left_out] = confidence(evidence[left_out], weights)
    titles = "said", "problems", "said, mean", "found"
    lines, error = reliability(said, found)
    show("families left out of the fit", titles, [line[:4] for line in lines])
    sure = said >= LEVEL
    print(
        f"\nExpected calibration error {error:.3f}; of {sure.sum()} with at least "
        f"{LEVEL} {np.sum(1 - found[sure]):.0f} had not found it."
    )
    names = "constant", *Evidence._fields
    weights = zip(names, fitted(evidence, found), WEIGHTS, strict=True)
    rows = [(name, f"{fit:.2f}", f"{now:.2f}") for name, fit, now in weights]
    show("weights of a fit to all", ("evidence", "fitted", "in use"), rows)
    if picture:
        draw(lines, error, picture)


def fitted(evidence, found):
    """The constant and the weights of a logistic function."""
    mean, size = evidence.mean(axis=0), evidence.std(axis=0) + 1e-9
    columns = np.column_stack([np.ones(len(found)), (evidence - mean) / size])
    signs = 2 * found - 1

    def loss(weights):
        misfit = np.logaddexp(0, -signs * (columns @ weights)).sum()
        return misfit + PENALTY / 2 * np.square(weights[1:]).sum()

    constant, *weights = minimize(loss, np.zeros(columns.shape[1])).x
    weights = np.array(weights) / size
    return np.array([constant - mean @ weights, *weights])


def reliability(said, found):
    """A line for each bin: its range, problems, mean of what was said and share found,
    these also as numbers; and the expected calibration error.
    """
    lines, error = [], 0.0
    for low, high in itertools.pairwise(EDGES):
        some = (said >= low) & ((said < high) | (high == 1))
        if not some.any():
            continue
        mean, share = said[some].mean(), found[some].mean()
        error += some.mean() * abs(mean - share)
        shown = f"{low:g} to {high:g}", f"{some.sum()}", f"{mean:.2f}", f"{share:.2f}"
        lines.append((*shown, mean, share, some.sum()))
    return lines, error


def draw(lines, error, path):
    import matplotlib

    matplotlib.rcParams["svg.fonttype"] = "none"
    matplotlib.rcParams["svg.hashsalt"] = "gwfast"
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], "--", color="0.6")
    *_, means, shares, counts = zip(*lines, strict=True)
    axes.scatter(means, shares, s=np.array(counts) * 2, alpha=0.7)
    for mean, share, count in zip(means, shares, counts, strict=True):
        axes.annotate(str(count), (mean, share), ha="center", va="center", fontsize=8)
    axes.set(
        xlabel="confidence", ylabel="share that found the lowest optimum",
        xlim=(0, 1.05), ylim=(0, 1.05),
        title=f"families left out of the fit, error {error:.3f}",
    )  # fmt: skip
    figure.savefig(path, metadata={"Date": None})
