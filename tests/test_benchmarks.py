"""The pieces of the programs in benchmarks/, on few points."""

import argparse
import importlib
import itertools
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import gwfast

ROOT = Path(__file__).resolve().parents[1]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("the benchmarks are not there", allow_module_level=True)
# Measurements have few iterations.
pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


@pytest.fixture(autouse=True)
def path(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)


def module(name):
    return importlib.import_module(f"benchmarks.{name}")


def told(program, task, **job):
    """Return the job with all that a measurement tells."""
    result = {"options": {}, "done": True, **job}
    getattr(module(program), task)(result, lambda **facts: result.update(facts))
    return result


def test_the_list_has_a_solver_for_every_problem():
    problems = module("common.problems")
    names = [name for name, *_ in problems.PROBLEMS]
    assert len({*names}) == len(names) >= 110
    assert problems.chosen(["shapes", "exact"]) == ["shapes 8 9 exact", "shapes 10 11 exact auto"]
    assert problems.solver("shapes 8 9 exact")().gw_cost > 0


@pytest.mark.slow
def test_a_measurement_that_fails_says_why():
    runner = module("common.runner")
    job = {"task": "solve", "solver": "gwfast", "rounds": 1}
    failed = runner.ask("benchmarks.report", {**job, "problem": {"kind": "fused", "n": -1}}, 1)
    assert "ValueError" in runner.outcome(failed) and not failed["runs"]
    late = runner.ask("benchmarks.report", {**job, "problem": {"kind": "fused", "n": 30}}, 1, 0.01)
    assert runner.outcome(late) == "> 0.01 s"
    solved = runner.ask("benchmarks.report", {**job, "problem": {"kind": "fused", "n": 30}}, 1)
    assert solved["done"] and solved["runs"][0]["marginal_error"] < 1e-4


# --- Large problems -------------------------------------------------------------------


def test_low_rank_plans_are_judged_by_their_entries():
    case = module("scale.cases").tissue(60, alpha=0.3)
    rng, (n, m) = np.random.default_rng(1), case.problem.shape
    # No coupling: its marginals are its own.
    q, r, g = (rng.random(shape) for shape in ((n, 3), (m, 3), 3))
    q /= (q / g @ r.T).sum()
    plan = module("scale.low_rank").LowRankPlan(q, r, g)
    found, expected = (
        gwfast.verify(case.problem, x, epsilon=1.0, max_iter=1) for x in (plan, q / g @ r.T)
    )
    assert found.gw_cost == pytest.approx(expected.gw_cost, rel=1e-12)
    assert found.marginals.value == pytest.approx(expected.marginals.value, rel=1e-9)


def test_otts_objective_of_a_low_rank_plan_is_ours():
    pytest.importorskip("ott", reason="OTT-JAX is not installed")
    case = module("scale.cases").tissue(60, alpha=0.3)
    plan, _, own = module("scale.low_rank").prepared(case, 5)()
    found = gwfast.verify(case.problem, plan, epsilon=1.0, max_iter=1)
    assert own == pytest.approx(found.gw_cost, rel=1e-3)


@pytest.mark.parametrize("kind", ["clouds", "tissue"])
def test_a_solve_is_measured_and_shown(kind):
    scale, options = module("scale.__main__"), {"tier": "tiled", "max_iter": 4}
    problem = {"kind": kind, "n": 200}
    made = told("scale.__main__", "solve", problem=problem, options=options, judged=True)
    assert kind == "tissue" or float(made["right"]) > 0.9
    (size, _, _), (rest, *_) = made["levels"]
    assert rest == 0 and size == pytest.approx(200, rel=0.1)
    assert scale.row_of(made, 100.0)[-2] == made["form"]
    failed = {"problem": problem, "options": {}, "failed": "MemoryError: 1 | 2"}
    assert scale.row_of(failed, 100.0)[2] == "MemoryError: 1 / 2"
    larger = {**made, "problem": {**problem, "n": 400}, "peak": 20.0}
    powers = scale.powers([{**made, "peak": 10.0}, larger])
    assert powers[-1] == ("peak MB", "1.00", "200 to 400")


def test_slices_are_measured_spot_by_spot():
    options = {"alpha": 0.03}
    made = told("scale.__main__", "slices", problem={"n": 700}, options=options)
    matches, means, alone, rigid = (
        float(part.split()[-1].rstrip(",)"))
        for part in made["right"].replace(" (", ", ").split(", ")
    )
    assert min(matches, means, rigid) > 0.95 and 0 < alone < 0.6


# --- Families of the search -----------------------------------------------------------


@pytest.fixture
def made_up(monkeypatch):
    """Put small random vocabularies and cells where files are read."""
    data = module("common.data")
    rng = np.random.default_rng(0)
    names = [f"word{k}" for k in range(4000)]
    cloud = rng.normal(size=(450, 3))
    words = SimpleNamespace(words=names, vectors=rng.normal(size=(4000, 4)))
    monkeypatch.setattr(data, "embeddings", lambda name: words)
    monkeypatch.setattr(data, "dictionary", lambda *_: {word: {word} for word in names})
    monkeypatch.setattr(data, "cells", lambda name: [cloud] * 2)


def entries(side):
    return side if isinstance(side, np.ndarray) else side.features


def test_every_family_has_valid_problems_always_the_same(made_up):
    pytest.importorskip("sklearn")  # for digits
    by_family = {}
    for problem in module("search.confidence").problems():
        by_family.setdefault(problem.family, []).append(problem)
    names = [problem[:2] for problem in itertools.chain(*by_family.values())]
    assert len({*names}) == len(names) >= 300
    for first, *_ in by_family.values():
        sides, again = first.make(), first.make()
        assert sides.known, first
        for k, side in enumerate((sides.x, sides.y)):
            rows, same = entries(side), entries(again[k])
            assert np.isfinite(rows).all() and np.array_equal(rows, same), first
            if isinstance(side, np.ndarray):
                assert np.abs(side - side.T).max() <= 1e-9 * np.abs(side).max(), first
            for pairs in sides.known:
                assert pairs.ndim == 2 and pairs.shape[1] == 2 and len(pairs), first
                assert 0 <= pairs.min() and pairs[:, k].max() < len(rows), first


def test_known_matches_of_a_graph_that_is_only_shuffled_are_exact():
    families = module("search.families")
    x, y, [known], _ = families.graph_sides(families.GRAPHS["tree"], families.steps, 30, 0.0)
    rows, columns = known.T
    assert np.array_equal(x[np.ix_(rows, rows)], y[np.ix_(columns, columns)])


def test_a_rerun_goes_on_from_the_file(tmp_path, monkeypatch, capsys):
    search, families = module("search.confidence"), module("search.families")

    def trees():
        for share in (0.0, 0.1):
            arguments = families.GRAPHS["tree"], families.steps, 30, share
            sides = families.graph_sides(*arguments)
            yield families.Problem("trees", f"{share}", lambda sides=sides: sides)

    monkeypatch.setattr(search, "FAMILIES", [trees])
    file = tmp_path / "facts.json"
    search.families(argparse.Namespace(only=[], sizes=[1], json=file))
    before = json.loads(file.read_text())
    search.families(argparse.Namespace(only=[], sizes=None, json=file))
    after = json.loads(file.read_text())
    assert len(before) == 1 and len(after) == 2 and after[0] == before[0]
    assert before[0]["found"] and before[0]["candidates"]
    assert "| trees | 2 |" in capsys.readouterr().out


def test_calibration_leaves_families_out(tmp_path, capsys):
    rows = []
    for k in range(60):
        # Two kinds of starts that meet have found the optimum in a family, not in the others.
        met, is_first = k % 2 == 0, k % 3 == 0
        ends = ("product", 1.0, "won"), ("random 0", 1.1, "lost")
        if met:
            ends = ends[0], ("random 0", 1.0, "same as product")
        facts = dict(n_points=50, epsilon=0.1, n_iter=9, seconds=0.1)
        tried = [dict(start=start, gw_cost=cost, fate=fate, **facts) for start, cost, fate in ends]
        row = dict(family="abc"[k % 3], name=str(k), status="converged", candidates=tried)
        rows.append(row | {"found": met == is_first})
    file = tmp_path / "rows.json"
    file.write_text(json.dumps(rows))
    module("search.confidence").calibration(argparse.Namespace(json=file))
    said = capsys.readouterr().out
    # Weights that are fitted to two families are wrong for the third.
    assert float(said.partition("calibration error ")[2].partition(";")[0]) > 0.2
    assert "| kinds |" in said


def test_reliability_is_of_what_was_said_and_found():
    said = np.array([0.1, 0.2, 0.6, 0.92, 0.94, 0.97, 1.0, 1.0])
    found = np.array([0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0])
    lines, error = module("search.confidence").reliability(said, found)
    assert [line[:2] for line in lines] == [
        ("0 to 0.3", 2),
        ("0.5 to 0.7", 1),
        ("0.9 to 0.95", 2),
        ("0.95 to 1", 3),
    ]
    assert error == pytest.approx((0.7 + 0.4 + 0.86 + 0.03) / 8)


def test_a_fit_finds_what_the_evidence_says():
    search = module("search.confidence")
    rng = np.random.default_rng(0)
    seen = rng.standard_normal((20_000, 5)) * [1, 2, 1, 3, 1]
    known = np.array([0.5, 1.0, -0.5, 0.0, 0.2, 1.0])
    found = rng.random(len(seen)) < search.confidence(seen, known)
    np.testing.assert_allclose(search.fitted(seen, found), known, atol=0.1)
