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
