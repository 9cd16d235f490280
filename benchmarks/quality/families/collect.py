"""What the default search finds on all problems of the families, and what it saw."""

import itertools
import json
import sys
import time
from pathlib import Path

import numpy as np

import gwfast

from ...common.markdown import show
from . import problems
from .problem import NEAR, NOTHING

# The seed of another search, beside which the first one is judged.
OTHER_SEED = 1
# Seconds for problems that are missed.
MINUTE = 60
TITLES = (
    "family", "problems", "found", "missed", "of these converged",
    "of found uncertain", "s, median",
)  # fmt: skip


def families_table(only="", path=None, limit=None):
    """A table by family of at most `limit` problems, those in the file at `path`
    included, which gets a row when a problem is solved.
    """
    path = path and Path(path)
    facts = json.loads(path.read_text()) if path and path.exists() else []
    known = {(one["family"], one["name"]): one for one in facts}
    rows = []
    for one in itertools.islice(problems(only), limit):
        row = known.get((one.family, one.name))
        if row is None:
            row = _solved(one)
        if row is None:
            continue
        rows.append(row)
        if path and row not in facts:
            facts.append(row)
            written = path.with_name(path.name + ".new")
            written.write_text(json.dumps(facts))
            written.replace(path)
    by_family = {}
    for row in rows:
        by_family.setdefault(row["family"], []).append(row)
    by_family["all"] = rows
    show("families", TITLES, [_line(*one) for one in by_family.items()])


def _solved(problem):
    """All facts of a problem; None if its data are not there."""
    try:
        x, y, known, options = problem.make()
    except (FileNotFoundError, ImportError) as error:
        print(f"{problem.name} left out: {error}", file=sys.stderr)
        return None

    def solve(**more):
        return gwfast.gromov_wasserstein(x, y, **options, **more)

    began = time.thread_time()
    result = solve()
    seconds = time.thread_time() - began
    matched = [solve(init=gwfast.Seeds(pairs)).gw_cost for pairs in known]
    other = solve(seed=OTHER_SEED).gw_cost
    product = solve(max_iter=1, init="product").history[0].gw_cost
    reference = float(np.nanmin([result.gw_cost, *matched, other]))
    found = result.gw_cost <= reference * (1 + NEAR) + NOTHING * product
    row = dict(
        family=problem.family, name=problem.name, reference=reference,
        known=matched, other_seed=other, product=product, gw_cost=result.gw_cost,
        found=bool(found), status=str(result.status), seconds=seconds,
        shape=list(result.plan.shape), epsilon=result.epsilon,
        confidence=result.confidence,
        candidates=[one._asdict() for one in result.candidates],
    )  # fmt: skip
    shown = result.gw_cost / reference - 1, min(matched) / reference - 1
    print(
        problem.family, problem.name, f"{reference:.5g}",
        *(f"{100 * one:+.2f} %" for one in shown), row["status"], f"{seconds:.2f}",
        sep="; ", file=sys.stderr, flush=True,
    )  # fmt: skip
    return row


def missed_table(path=None, limit=None):
    """What a minute each finds of problems that the default search has missed, as
    `families_table` has written at `path`: of at most `limit`, spread over all.
    """
    if path is None or not Path(path).exists():
        print("(left out: needs --json FILE, as of `families`)", file=sys.stderr)
        return
    facts = json.loads(Path(path).read_text())
    missed = {(one["family"], one["name"]): one for one in facts if not one["found"]}
    if limit is not None:
        places = np.linspace(0, len(missed) - 1, min(limit, len(missed))).astype(int)
        keys = list(missed)
        missed = {keys[place]: missed[keys[place]] for place in places}
    by_family = {}
    for one in problems(""):
        row = missed.get((one.family, one.name))
        if row is None:
            continue
        x, y, _, options = one.make()
        result = gwfast.gromov_wasserstein(
            x, y, **options, options=gwfast.SolverOptions(search_time=MINUTE)
        )
        above = result.gw_cost / row["reference"] - 1
        found = above <= NEAR
        print(one.family, one.name, f"{100 * above:+.2f} %", file=sys.stderr, flush=True)
        by_family.setdefault(one.family, []).append(found)
    by_family["all"] = list(itertools.chain.from_iterable(by_family.values()))
    rows = [(family, str(len(one)), str(sum(one))) for family, one in by_family.items()]
    show("a minute each", ("family", "missed", "found in a minute"), rows)


def _line(family, rows):
    missed = [row for row in rows if not row["found"]]
    found = [row for row in rows if row["found"]]
    wrong = sum(row["status"] == "converged" for row in missed)
    unsure = sum(row["status"] == "uncertain" for row in found)
    seconds = np.median([row["seconds"] for row in rows]) if rows else np.nan
    counts = len(rows), len(found), len(missed), wrong, unsure
    return family, *map(str, counts), f"{seconds:.2f}"
