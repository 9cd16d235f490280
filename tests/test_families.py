"""The problems of ``python -m benchmarks.search families``."""

import importlib
import itertools
import json
import types
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
if not (ROOT / "benchmarks" / "quality" / "families").is_dir():
    pytest.skip("the benchmarks are not there", allow_module_level=True)


@pytest.fixture(autouse=True)
def path(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)


def families():
    """The problems of each family; digits need scikit-learn."""
    pytest.importorskip("sklearn")
    every = importlib.import_module("benchmarks.quality.families").problems()
    made = {}
    for one in every:
        made.setdefault(one.family, []).append(one)
    return made


def entries(side):
    return side if isinstance(side, np.ndarray) else side.features


@pytest.fixture
def made_up(monkeypatch):
    """Small random vocabularies and cells in the place of files."""
    pairs = importlib.import_module("benchmarks.common.pairs")
    cells = importlib.import_module("benchmarks.quality.families.cells")
    rng = np.random.default_rng(0)
    names = [f"word{k}" for k in range(4000)]
    cloud = rng.normal(size=(450, 3))
    words = types.SimpleNamespace(words=names, vectors=rng.normal(size=(4000, 4)))
    monkeypatch.setattr(pairs, "embeddings", lambda name: words)
    monkeypatch.setattr(pairs, "dictionary", lambda *_: {one: {one} for one in names})
    monkeypatch.setattr(cells, "_cells", lambda name: [cloud] * 2)


def test_every_family_has_valid_problems_always_the_same(made_up):
    made = families()
    names = [(one.family, one.name) for one in itertools.chain(*made.values())]
    assert len(set(names)) == len(names) >= 300
    for first, *_ in made.values():
        sides, again = first.make(), first.make()
        assert sides.known, first
        for k, side in enumerate((sides.x, sides.y)):
            one, other = entries(side), entries(again[k])
            assert np.isfinite(one).all() and np.array_equal(one, other), first
            if isinstance(side, np.ndarray):
                assert np.abs(side - side.T).max() <= 1e-9 * np.abs(side).max(), first
            for pairs, same in zip(sides.known, again.known, strict=True):
                assert pairs.ndim == 2 and pairs.shape[1] == 2, first
                assert len(pairs) and np.array_equal(pairs, same), first
                assert 0 <= pairs.min() and pairs[:, k].max() < len(one), first


def test_known_matches_of_a_graph_that_is_only_shuffled_are_exact():
    graphs = importlib.import_module("benchmarks.quality.families.graphs")
    x, y, [known], _ = graphs.sides(graphs.KINDS["tree"], graphs.steps, 30, 0.0)
    rows, cols = known.T
    assert np.array_equal(x[np.ix_(rows, rows)], y[np.ix_(cols, cols)])


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_a_rerun_goes_on_from_the_file(tmp_path, monkeypatch, capsys):
    collect = importlib.import_module("benchmarks.quality.families.collect")
    problem = importlib.import_module("benchmarks.quality.families.problem")
    graphs = importlib.import_module("benchmarks.quality.families.graphs")

    def small(only):
        for share in (0.0, 0.1):
            yield problem.Problem(
                "trees", f"{share}",
                lambda share=share: graphs.sides(
                    graphs.KINDS["tree"], graphs.steps, 30, share
                ),
            )  # fmt: skip

    monkeypatch.setattr(collect, "problems", small)
    file = tmp_path / "facts.json"
    collect.families_table(path=file, limit=1)
    before = json.loads(file.read_text())
    collect.families_table(path=file)
    after = json.loads(file.read_text())
    assert len(before) == 1 and len(after) == 2 and after[0] == before[0]
    assert before[0]["found"] and before[0]["candidates"]
    assert "| trees | 2 |" in capsys.readouterr().out


def test_reliability_is_of_what_was_said_and_found():
    table = importlib.import_module("benchmarks.quality.confidence")
    said = np.array([0.1, 0.2, 0.6, 0.92, 0.94, 0.97, 1.0, 1.0])
    found = np.array([0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0])
    lines, error = table.reliability(said, found)
    assert [line[:4] for line in lines] == [
        ("0 to 0.3", "2", "0.15", "0.50"),
        ("0.5 to 0.7", "1", "0.60", "1.00"),
        ("0.9 to 0.95", "2", "0.93", "0.50"),
        ("0.95 to 1", "3", "0.99", "1.00"),
    ]
    assert error == pytest.approx((0.7 + 0.4 + 0.86 + 0.03) / 8)


def test_a_fit_finds_what_the_evidence_says():
    table = importlib.import_module("benchmarks.quality.confidence")
    agreement = importlib.import_module("gwfast.solvers.search.confidence")
    rng = np.random.default_rng(0)
    seen = rng.standard_normal((20_000, 5)) * [1, 2, 1, 3, 1]
    known = np.array([0.5, 1.0, -0.5, 0.0, 0.2, 1.0])
    found = rng.random(len(seen)) < agreement.confidence(seen, known)
    np.testing.assert_allclose(table.fitted(seen, found), known, atol=0.1)


def test_the_table_of_confidence_leaves_families_out(tmp_path, capsys):
    table = importlib.import_module("benchmarks.quality.confidence")
    rows = []
    for k in range(60):
        # Two kinds of starts that meet have found it in one family, not in the other.
        met, family = k % 2 == 0, k % 3 == 0
        fate = "same as product" if met else "lost"
        told = ("product", 1.0, "won"), ("random 0", 1.0 if met else 1.1, fate)
        tried = [
            dict(start=start, n_points=50, epsilon=0.1, gw_cost=cost, n_iter=9,
                 seconds=0.1, fate=fate)
            for start, cost, fate in told
        ]  # fmt: skip
        found = bool(met) if family else not met
        names = dict(family="abc"[k % 3], name=str(k), status="converged")
        rows.append(dict(**names, found=found, candidates=tried))
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows))
    table.confidence_table(path)
    said = capsys.readouterr().out
    assert "families left out of the fit" in said and "| kinds |" in said
    error = float(said.partition("calibration error ")[2].partition(";")[0])
    # What two families teach is wrong for the third.
    assert error > 0.2
    table.confidence_table(tmp_path / "missing.json")
    assert "needs --json" in capsys.readouterr().err
