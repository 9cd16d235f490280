"""The programs in benchmarks/, on few points."""

import argparse
import importlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
from helpers.vector_files import write_vectors

import gwfast

ROOT = Path(__file__).resolve().parents[1]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("the benchmarks are not there", allow_module_level=True)
# Measurements have few iterations.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def path(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.setenv("MPLBACKEND", "Agg")


def module(name):
    return importlib.import_module(f"benchmarks.{name}")


def measured(program, task, **job):
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


def test_lines_of_every_mechanism_are_counted_by_language():
    mechanisms, tuning = module("mechanisms"), importlib.import_module("gwfast.utils.tuning")
    lines = {name: mechanisms.lines_of(name) for name in mechanisms.WHERE}
    assert {*lines} == {
        name for name, kind in tuning.Tuning.__annotations__.items() if kind is bool
    }
    assert all(python > 0 for python, *_ in lines.values())
    assert all(number > 100 for number in lines["small_descents"])
    method = mechanisms.source_of("gwfast/kernels/_judge.pyx", "Judge.fails")
    assert method.startswith("    def fails(") and method.endswith("reach, shrinks\n")
    one_line = mechanisms.source_of("csrc/judge.h", "gwf_max")
    assert (
        one_line == "static inline double gwf_max(double a, double b) { return a > b ? a : b; }\n"
    )
    for path in ("csrc/judge.h", "gwfast/kernels/_judge.pyx", "gwfast/quadratic/judge.py"):
        with pytest.raises(ValueError, match=f"{path} has no Judge.nothing"):
            mechanisms.source_of(path, "Judge.nothing")


@pytest.mark.slow
def test_a_solve_is_measured_in_a_process_or_says_why_it_fails():
    runner, answers = module("common.runner"), []
    for n, limit in ((30, 600), (-1, 600), (30, 0.01)):
        problem = {"kind": "fused", "n": n}
        job = {"task": "solve", "solver": "gwfast", "rounds": 1, "problem": problem}
        answers.append(runner.ask("benchmarks.report", job, 1, limit))
    assert answers[0]["done"] and answers[0]["runs"][0]["marginal_error"] < 1e-4
    assert "ValueError" in runner.outcome(answers[1]) and "0.01 s" in runner.outcome(answers[2])


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


@pytest.mark.parametrize("kind", ["clouds", "tissue"])
def test_large_solves_are_measured(kind):
    options, problem = {"tier": "tiled", "max_iter": 4}, {"kind": kind, "n": 200}
    told = measured("scale.__main__", "solve", problem=problem, options=options, judged=True)
    assert kind == "tissue" or float(told["right"]) > 0.9
    assert told["levels"][0][0] == pytest.approx(200, rel=0.1)
    assert module("scale.__main__").row_of(told, 100.0)[-2] == told["form"]


@pytest.mark.slow
def test_slices_are_measured_spot_by_spot():
    told = measured("scale.__main__", "slices", problem={"n": 700}, options={"alpha": 0.03})
    matches, means, alone, rigid = map(float, re.findall(r"\d\.\d+", told["right"]))
    assert min(matches, means, rigid) > 0.95 and 0 < alone < 0.6


def test_families_have_valid_problems_always_the_same():
    families = module("search.families")
    problems = [problem for family in families.FAMILIES for problem in family()]
    assert len({problem[:2] for problem in problems}) == len(problems) > 200
    for problem in problems[::47]:
        sides, again = problem.make(), problem.make()
        x, y, *same = (getattr(side, "features", side) for side in (*sides[:2], *again[:2]))
        assert all(map(np.array_equal, (x, y), same)) and np.isfinite(x).all()
        for rows, columns in (pairs.T for pairs in sides.known):
            assert len(rows) and rows.max() < len(x) and columns.max() < len(y)
    # Matches of a shuffled graph are exact.
    x, y, [known], _ = families.graph_sides(families.GRAPHS["tree"], families.steps, 30, 0.0)
    rows, columns = known.T
    assert np.array_equal(x[np.ix_(rows, rows)], y[np.ix_(columns, columns)])


@pytest.mark.slow
def test_a_rerun_of_families_goes_on_from_the_file(tmp_path, capsys):
    search, file = module("search.confidence"), tmp_path / "facts.json"
    for step, count in ((8, 1), (4, 2)):
        options = dict(only=["molecules", "distances"], sizes=[step], json=file)
        search.families(argparse.Namespace(**options))
        rows = json.loads(file.read_text())
        assert len(rows) == count and rows[0]["candidates"]
    assert "| all | 2 |" in capsys.readouterr().out


def test_calibration_is_fitted_to_what_was_found():
    search, rng = module("search.confidence"), np.random.default_rng(0)
    seen = rng.standard_normal((20_000, 5)) * [1, 2, 1, 3, 1]
    known = np.array([0.5, 1.0, -0.5, 0.0, 0.2, 1.0])
    found = rng.random(len(seen)) < 1 / (1 + np.exp(-(known[0] + seen @ known[1:])))
    np.testing.assert_allclose(search.fitted(seen, found), known, atol=0.1)
    said = np.array([0.1, 0.2, 0.6, 0.92, 0.94, 0.97, 1.0, 1.0])
    found = np.array([0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0])
    lines, error = search.reliability(said, found)
    assert [count for _, count, *_ in lines] == [2, 1, 2, 3]
    assert error == pytest.approx((0.7 + 0.4 + 0.86 + 0.03) / 8)


@pytest.mark.slow
def test_programs_of_clients_are_compared():
    pytest.importorskip("ot", reason="POT is not installed")
    rows = module("clients.rows")
    solve = rows.timed(lambda: np.full((5, 5), 0.04))
    row, ratios = rows.compared("numbers", solve, solve, np.sum, "right", np.sum, 2)
    assert row[5:7] == ["1", "1"] and len(ratios) == 2
    plan = rows.coupling(np.random.default_rng(0).random((5, 7)) / 35)
    np.testing.assert_allclose(plan.sum(axis=1), 1 / 5)
    np.testing.assert_allclose(plan.sum(axis=0), 1 / 7)


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["table1", "--pairs", "es-fr", "--n-words", "60"], "Procrustes: csls"),
        (["table2"], "en-it is not run"),
        (["dynamics", "--pairs", "es-fr"], "P@1 of the plan"),
        (["distances", "--languages", "es", "fr", "--n-words", "100"], "distances of 100 words"),
    ],
)
def test_an_experiment_of_the_paper_runs(tmp_path, capsys, arguments, told):
    spanish, french, dictionary = gwfast.words.load_sample()
    for name, side in (("es", spanish), ("fr", french)):
        write_vectors(tmp_path / f"wiki.{name}.vec", side.words[:300], side.vectors[:300])
    lines = "".join(f"{word} {other}\n" for word, right in dictionary.items() for other in right)
    for fold in ("0-5000", "5000-6500"):
        (tmp_path / f"es-fr.{fold}.txt").write_text(lines, encoding="utf-8")
    (tmp_path / "out").mkdir()
    main = module("paper.__main__").main
    main([*arguments, "--data", str(tmp_path), "--output", str(tmp_path / "out"), "--threads", "1"])
    assert told in capsys.readouterr().out
    pictures = {"dynamics": 1, "distances": 2}.get(arguments[0], 0)
    assert len([*tmp_path.rglob("*.png")]) == pictures
