"""The pieces of ``python -m benchmarks.scale``, on few points."""

import importlib
from pathlib import Path

import numpy as np
import pytest
from helpers.problems import gw_objective
from scipy.spatial.distance import cdist

import gwfast

ROOT = Path(__file__).resolve().parents[1]
if not (ROOT / "benchmarks" / "scale").is_dir():
    pytest.skip("the benchmarks are not there", allow_module_level=True)
# Measurements have few iterations.
pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


def module(name):
    return importlib.import_module(f"benchmarks.scale.{name}")


@pytest.fixture(autouse=True)
def path(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)


def told(task, **job):
    """All that a measurement says."""
    made = {}
    getattr(module("measures"), task)({"threads": 1, **job}, lambda **one: made.update(one))
    return made


@pytest.fixture
def fused():
    """A fused case of 20 and 23 points, and the costs that are never formed."""
    rng = np.random.default_rng(0)
    sides = [30 + rng.normal(size=(n, 2)) for n in (20, 23)]
    features = [rng.normal(size=(n, 4)) for n in (20, 23)]
    case = module("cases").Case(
        "", sides, np.mean, metric="sqeuclidean", features=features, alpha=0.3
    )
    costs = [cdist(one, one, "sqeuclidean") for one in sides]
    return case, costs, cdist(*features, "sqeuclidean")


@pytest.mark.parametrize("form", ["whole", "low rank"])
def test_the_judge_sums_over_all_terms(fused, form):
    case, costs, linear = fused
    rng, judge = np.random.default_rng(1), module("judge")
    if form == "whole":
        result = case.solve(
            epsilon="5%", n_threads=1, options=gwfast.SolverOptions(tier="tiled"), init="product"
        )
        plan, array = judge.Whole(result.coupling), result.plan.astype(np.float64)
    else:
        # No coupling: its marginals are its own.
        q, r, g = (rng.random(shape) for shape in ((20, 3), (23, 3), 3))
        q /= (q / g @ r.T).sum()
        plan, array = judge.LowRank(q, r, g), q / g @ r.T
    found = judge.judged(plan, case)
    quadratic = gw_objective(array, *costs)
    assert found["quadratic"] == pytest.approx(quadratic, rel=1e-9)
    assert found["linear"] == pytest.approx(np.vdot(linear, array), rel=1e-9)
    error = sum(np.abs(array.sum(axis=k) - 1 / array.shape[1 - k]).sum() for k in (0, 1))
    assert found["marginal_error"] == pytest.approx(error, abs=1e-12)
    assert found["right"] == array.argmax(axis=1).mean()
    if form == "whole":
        assert found["objective"] == pytest.approx(result.gw_cost, rel=1e-4)


def test_otts_objective_of_a_low_rank_plan_is_that_of_the_judge():
    pytest.importorskip("ott", reason="OTT-JAX is not installed")
    case = module("cases").make("tissue", n=60, alpha=0.3)
    options = {"rank": 5, "initializer": "random", "max_iterations": 20}
    plan, iterations, own = module("low_rank").prepared(case, **options)()
    found = module("judge").judged(plan, case)
    assert iterations == 20
    assert own == pytest.approx(found["objective"], rel=1e-3)


@pytest.mark.parametrize("kind", ["clouds", "tissue"])
def test_a_solve_is_measured_and_shown(kind):
    tables = module("tables")
    problem = {"kind": kind, "n": 200}
    options = {"tier": "tiled", "max_iter": 4}
    made = told("solve", problem=problem, options=options, judged=kind == "tissue")
    if kind == "clouds":
        assert made["right"] > 0.9
    else:
        assert made["objective"] == pytest.approx(made["gw_cost"], rel=1e-3)
    (size, _, _), (rest, *_) = made["levels"]
    assert rest == 0 and size == pytest.approx(200, rel=0.1)
    result = {"problem": problem, "done": True, **made, "peak": 5.0}
    other = {"problem": problem, "failed": "MemoryError: 1 | 2"}
    text = tables.solved([result, other], sgemm=100.0)
    assert "| failed: MemoryError: 1 / 2 |" in text
    larger = {**result, "problem": {**problem, "n": 400}, "peak": 10.0}
    assert "| peak MB | 1.00 | 200 to 400 |" in tables.grown([result, larger], 100.0)


def test_slices_are_measured_spot_by_spot():
    made = told("slices", problem={"n": 700}, options={"alpha": 0.03})
    assert made["right"] > 0.95 and made["right_mean"] > 0.95
    assert 0 < made["expression"] < 0.6 and made["rigid"] > 0.95
    result = {"problem": {"n": 700}, "done": True, **made}
    assert f"| {made['form']} |" in module("tables").matched([result], 100.0)


def test_memory_is_asked_for_and_taken():
    problem, options = ({"kind": "clouds", "n": 400}, {"tier": "dense", "init": "product"})
    made = told("memory", problem=problem, options={**options, "max_iter": 2})
    assert made["asked"] > 0 and made["peak"] >= 0


def test_an_exponent_is_fitted():
    points = [(n, 3.0 * n**1.5) for n in (10, 100, 500)]
    assert module("tables").exponent(points) == pytest.approx(1.5)
