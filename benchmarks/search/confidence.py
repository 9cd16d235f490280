"""The default search on the families, and how well `GWResult.confidence` agrees with it."""

import itertools
import sys
import time

import numpy as np
from scipy.optimize import minimize

import gwfast
from gwfast.results.status import Ending
from gwfast.results.tables import Candidate, Candidates
from gwfast.solvers.search.confidence import LEVEL, WEIGHTS, Evidence, kind_of

from ..common import runner
from . import families as made
from . import real

FAMILIES = (*made.FAMILIES, *real.FAMILIES, *made.OTHER_FAMILIES)
# Relative difference of objectives that is none, and an objective that is nothing, as a fraction
# of the objective of the product plan.
NEAR, NOTHING = 5e-3, 1e-6
NAMES = "constant", *Evidence._fields
# Penalty of squared weights of evidence in units of its deviation.
PENALTY = 10.0
# Heads of the columns of stated confidences above and below the level.
COUNTS = "results", "said", "found"
# Edges of the bins of the reliability diagram.
EDGES = 0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0


def problems(words=()):
    """Yield the problems of all families whose family or name has these words."""
    for family in FAMILIES:
        for problem in family():
            if all(word in f"{problem.family}: {problem.name}" for word in words):
                yield problem


def families(options):
    """Print by family what the default search finds, of every k-th problem for a size k, from the
    place of a second size on.

    A file keeps what every solve saw, candidates included, and a rerun goes on from there.
    """
    kept = runner.kept(options.json, [])
    known, by_family = {(row["family"], row["name"]): row for row in kept}, {}
    step, first, *_ = *(options.sizes or [1]), 0, 0
    for problem in itertools.islice(problems(options.only), first, None, step):
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

    is_free = "marginals" in how
    name = "reg_cost" if is_free and how["epsilon"] != 0 else "gw_cost"
    began = time.thread_time()
    result = solve()
    seconds, objective = time.thread_time() - began, getattr(result, name)
    how = {**how, "epsilon": result.epsilon}
    starts = [dict(init=gwfast.Seeds(pairs)) for pairs in known] + [dict(seed=1)]
    if not known:
        starts.append(dict(options=gwfast.SolverOptions(search_time=2.0)))
    reference = float(np.nanmin([objective, *(getattr(solve(**one), name) for one in starts)]))
    product = solve(max_iter=1, init="product").history[0].gw_cost
    row = dict(
        family=problem.family,
        name=problem.name,
        kind=_kind(x, y, how, result),
        reference=reference,
        objective=objective,
        found=bool(objective <= reference + NEAR * abs(reference) + NOTHING * product),
        status=str(result.status),
        seconds=seconds,
        confidence=result.confidence,
        product=result.candidates.product,
        candidates=[candidate._asdict() for candidate in result.candidates],
    )
    above = f"{100 * (objective - reference) / (abs(reference) or 1.0):+.2f} %"
    print(problem.family, problem.name, above, row["status"], sep="; ", file=sys.stderr, flush=True)
    return row


def calibration(options):
    """Print by kind of search the stated confidence beside the share of problems found, of the
    results that `families` has kept; and weights of a fit to the evidence of each kind.
    """
    if not options.json or not options.json.exists():
        raise FileNotFoundError("--json FILE, as of `families`")
    rows = [row for row in runner.kept(options.json, []) if row["confidence"] < 1]
    lines = []
    for kind in (*WEIGHTS, "all"):
        cells, chosen = [], [row for row in rows if kind in ("all", row["kind"])]
        for is_sure in (True, False):
            some = [row for row in chosen if (row["confidence"] >= LEVEL) == is_sure]
            said, found = (
                np.mean([row[key] for row in some] or 0) for key in ("confidence", "found")
            )
            cells += [len(some), f"{said:.2f}" if some else "", f"{found:.2f}" if some else ""]
        lines.append((kind, *cells))
    heads = [f"{what}, {side}" for side in (f"from {LEVEL} on", "below") for what in COUNTS]
    runner.show("confidence, stated and found", ("kind", *heads), lines)
    for kind in WEIGHTS:
        chosen = [row for row in rows if row["kind"] == kind]
        if not chosen:
            continue
        found = np.array([row["found"] for row in chosen], dtype=float)
        said = np.array([row["confidence"] for row in chosen])
        lines, error = reliability(said, found)
        shown = [(label, n, f"{mean:.2f}", f"{share:.2f}") for label, n, mean, share in lines]
        runner.show(kind, ("said", "problems", "said, mean", "found"), shown)
        sure = said >= LEVEL
        print(f"Calibration error {error:.3f}; of {sure.sum()} with at least {LEVEL}", end=" ")
        print(f"{np.sum(1 - found[sure]):.0f} had not found it.")
        evidence = np.array([_evidence(row, kind) for row in chosen])
        weights = zip(NAMES, fitted(evidence, found), WEIGHTS[kind], strict=True)
        shown = [(name, f"{weight:.2f}", f"{now:.2f}") for name, weight, now in weights]
        runner.show("weights of a fit to these", ("evidence", "fitted", "in use"), shown)


def _kind(x, y, how, result):
    """Return the kind of search, a key of `WEIGHTS`."""
    terms = {name: how[name] for name in ("linear_cost", "alpha", "marginals") if name in how}
    return kind_of(gwfast.QuadraticProblem(x, y, **terms), exact=result.epsilon == 0)


def _evidence(row, kind):
    """Return the `Evidence` of a row of `families`, of a search of this kind."""
    tried = [Candidate(**candidate) for candidate in row["candidates"]]
    tried = Candidates(tried, product=row["product"])
    settled = Ending.CONVERGED if row["status"] in ("converged", "uncertain") else None
    return Evidence.of(tried, settled, kind)


def fitted(evidence, found):
    """Return the constant and the weights of a logistic function."""
    mean, size = evidence.mean(axis=0), evidence.std(axis=0)
    size[size < 1e-6] = 1.0  # evidence that all problems share
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
