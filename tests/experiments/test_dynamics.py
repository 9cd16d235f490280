"""``gwfast experiment dynamics``."""

import pytest
from helpers.experiments import cells, results_of
from helpers.files import tree

import gwfast
from gwfast.words import evaluate, read_dictionary, read_embeddings


def test_dynamics(run, data, tmp_path):
    status, out, err = run(
        "dynamics", "--data", data["muse"], "--pairs", "en-fr,en-ru", "--n-words", 300,
        "--epsilon", "2%", "--epsilon", "1%", "--output", "out",
    )  # fmt: skip
    assert status == 0, err
    assert "1 of 2: en-fr, epsilon 2%" in err
    assert "en-ru: wiki.ru.vec, crosslingual/dictionaries/en-ru.0-5000.txt" in out
    flat = " ".join(out.split())
    assert "pictures without numbers" in flat
    assert "The paper: It draws" in flat and "falls monotonically, accuracy" in flat
    assert "Here: the objective, gw_cost, " in flat
    assert all(len(line) <= 80 for line in out.splitlines())
    picture = (tmp_path / "out" / "dynamics-en-fr.png").read_bytes()
    assert picture.startswith(b"\x89PNG")

    x, y = (read_embeddings(data["muse"] / f"wiki.{name}.vec") for name in ("en", "fr"))
    result = gwfast.align(
        x.vectors[:300], y.vectors[:300], epsilon=gwfast.Epsilon(relative=0.02),
        init="profile",
    )  # fmt: skip
    folder = data["muse"] / "crosslingual" / "dictionaries"
    train = read_dictionary(folder / "en-fr.0-5000.txt")
    score = evaluate(result, train, x.words[:300], y.words[:300], methods=["coupling"])["coupling"]
    trace = results_of(tmp_path / "out")["jobs"][0]["result"]
    assert trace["queries"] == score.n_queries
    assert trace["epsilon"] == pytest.approx(result.gw.epsilon, rel=1e-6)
    history = trace["history"]
    assert len(history) == result.gw.n_outer
    assert [step["iteration"] for step in history] == list(range(1, len(history) + 1))
    assert history[-1]["gw_cost"] == pytest.approx(result.gw.gw_cost, rel=1e-6)
    assert history[-1]["accuracy"] == pytest.approx(score.at[1], abs=1e-12)
    assert history[-1]["accuracy"] > history[0]["accuracy"]
    last = cells(out, "last", f"{history[-1]['gw_cost']:.5f}")
    assert last[0] == f"{100 * history[-1]['accuracy']:.1f}"


def test_dynamics_of_two_files(run, data, tmp_path):
    muse = data["muse"]
    dictionary = muse / "crosslingual" / "dictionaries" / "en-fr.0-5000.txt"
    files = muse / "wiki.en.vec", muse / "wiki.fr.vec"
    options = "--n-words", 100, "--epsilon", "2%", "--max-outer", 3, "--quiet"
    status, out, err = run("dynamics", *files, "--dictionary", dictionary, *options)
    assert status == 0
    assert "Training dynamics of wiki.en-wiki.fr" in out
    assert err.startswith("gwfast: warning: wiki.en-wiki.fr, epsilon 2%: ")
    assert tree(tmp_path) == []
    for arguments in (files, files[:1], (*files, "--data", muse), ()):
        status, out, err = run("dynamics", *arguments)
        assert status == 2 and out == ""
