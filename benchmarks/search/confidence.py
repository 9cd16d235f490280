"""The default search on the families, and the calibration of `GWResult.confidence`.

A logistic function of the `Evidence` of a search is fitted to whether the search has found the
lowest known optimum, on all families but one, and judged on that family, in turn: what holds
within a family need not hold on another.
"""

import itertools
import sys
import time

import numpy as np
from scipy.optimize import minimize

import gwfast
from gwfast.results.tables import Candidate
from gwfast.solvers.search.confidence import LEVEL, WEIGHTS, Evidence, confidence, winner_of

from ..common import runner
from . import families as made
from . import real

FAMILIES = (*made.FAMILIES, *real.FAMILIES)
# Relative difference of objectives that is none, and an objective that is nothing, as a fraction
# of the objective of the product plan.
NEAR, NOTHING = 5e-3, 1e-6
# Penalty of squared weights of evidence in units of its deviation.
PENALTY = 10.0
# Edges of the bins of the reliability diagram.
EDGES = 0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0


def problems(words=()):
    """Yield the problems of all families whose family or name has these words."""
    for family in FAMILIES:
        for problem in family():
            if all(word in f"{problem.family}: {problem.name}" for word in words):
                yield problem


def families(options):
    """Print by family what the default search finds; a size limits the number of problems.

    A file keeps what every solve saw, candidates included, and a rerun goes on from there.
    """
    kept = runner.kept(options.json, [])
    known, by_family = {(row["family"], row["name"]): row for row in kept}, {}
    limit = options.sizes[0] if options.sizes else None
    for problem in itertools.islice(problems(options.only), limit):
        row = known.get(problem[:2])
        if row is None:
            try:
                row = solved(problem)
            except (FileNotFoundError, ImportError) as error:
                print(f"{problem.name} left out: {runner.reason(error)}", file=sys.stderr)
                continue
            kept.append(row)
            runner.keep(options.json, kept)
        by_family.setdefault(problem.family, []).append(row)
    by_family["all"] = list(itertools.chain(*by_family.values()))
    rows = []
    for family, found in by_family.items():
        missed = [row for row in found if not row["found"]]
        wrong = sum(row["status"] == "converged" for row in missed)
        unsure = sum(row["status"] == "uncertain" for row in found if row["found"])
        seconds = np.median([row["seconds"] for row in found]) if found else np.nan
        counts = len(found), len(found) - len(missed), len(missed), wrong, unsure
        rows.append((family, *counts, f"{seconds:.2f}"))
    heads = "family", "problems", "found", "missed", "of these converged", "of found uncertain"
    runner.show("families", (*heads, "CPU s, median"), rows)


def solved(problem):
    """Return all facts of a problem; found is within .5 % of the lowest objective that the search,
    a search with another seed, or known matches lead to.
    """
    x, y, known, how = problem.make()

    def solve(**more):
        return gwfast.gromov_wasserstein(x, y, **how, **more)

    began = time.thread_time()
    result = solve()
    seconds = time.thread_time() - began
    matched = [solve(init=gwfast.Seeds(pairs)).gw_cost for pairs in known]
    product = solve(max_iter=1, init="product").history[0].gw_cost
    reference = float(np.nanmin([result.gw_cost, *matched, solve(seed=1).gw_cost]))
    row = dict(
        family=problem.family,
        name=problem.name,
        reference=reference,
        gw_cost=result.gw_cost,
        found=bool(result.gw_cost <= reference * (1 + NEAR) + NOTHING * product),
        status=str(result.status),
        seconds=seconds,
        confidence=result.confidence,
        candidates=[candidate._asdict() for candidate in result.candidates],
    )
    above = f"{100 * (result.gw_cost / reference - 1):+.2f} %"
    print(problem.family, problem.name, above, row["status"], sep="; ", file=sys.stderr, flush=True)
    return row


def calibration(options):
    """Print how confidence agrees with the results that `families` has kept, each family left out
    of the fit in turn, and the weights of a fit to all.
    """
    if not options.json or not options.json.exists():
        raise FileNotFoundError("--json FILE, as of `families`")
    rows = []
    for row in runner.kept(options.json, []):
        tried = [Candidate(**candidate) for candidate in row["candidates"]]
        if not winner_of(tried).startswith("isomorphism"):
            rows.append((row["family"], Evidence.of(tried, row["status"]), row["found"]))
    names, evidence, found = map(np.array, zip(*rows, strict=True))
    found, said = found.astype(float), np.zeros(len(found))
    for family in set(names):
        left_out = names == family
        weights = fitted(evidence[~left_out], found[~left_out])
        said[left_out] = confidence(evidence[left_out], weights)
    lines, error = reliability(said, found)
    heads = "said", "problems", "said, mean", "found"
    shown = [(label, count, f"{mean:.2f}", f"{share:.2f}") for label, count, mean, share in lines]
    runner.show("families left out of the fit", heads, shown)
    sure = said >= LEVEL
    print(f"Expected calibration error {error:.3f}; of {sure.sum()} with at least {LEVEL}", end=" ")
    print(f"{np.sum(1 - found[sure]):.0f} had not found it.")
    weights = zip(("constant", *Evidence._fields), fitted(evidence, found), WEIGHTS, strict=True)
    shown = [(name, f"{weight:.2f}", f"{now:.2f}") for name, weight, now in weights]
    runner.show("weights of a fit to all", ("evidence", "fitted", "in use"), shown)


def fitted(evidence, found):
    """Return the constant and the weights of a logistic function."""
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
    """Return the range, problems, mean confidence and share found of each bin; and the expected
    calibration error.
    """
    lines, error = [], 0.0
    for low, high in itertools.pairwise(EDGES):
        inside = (said >= low) & ((said < high) | (high == 1))
        if inside.any():
            mean, share = said[inside].mean(), found[inside].mean()
            error += inside.mean() * abs(mean - share)
            lines.append((f"{low:g} to {high:g}", int(inside.sum()), mean, share))
    return lines, error
