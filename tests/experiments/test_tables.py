"""``gwfast experiment table1`` and ``table2``."""

import gzip

import numpy as np
import pytest
from helpers.experiments import accuracies, cells, results_of
from helpers.files import tree

import gwfast
from gwfast.words import evaluate, read_dictionary, read_embeddings


@pytest.mark.slow
def test_table1(run, data, tmp_path):
    status, out, err = run(
        "table1", "--data", data["muse"], "--pairs", "en-fr,en-ru,en-es",
        "--n-words", 100, "--output", "out",
    )  # fmt: skip
    assert status == 0, err
    assert all(len(line) <= 80 for line in out.splitlines())
    assert cells(out, "Procrustes ", "paper")[0] == "74.9"
    assert cells(out, "G-W, lambda 1e-5", "paper")[0] == "81.3"
    assert "77.6" not in out  # a direction that was not run
    assert "2 of 2: en-fr, auto" in err
    assert "en-ru: wiki.ru.vec, crosslingual/dictionaries/en-ru.5000-6500.txt" in out
    # Vectors of all three languages are there, a dictionary is not.
    assert "  en-es: crosslingual/dictionaries/en-es.5000-6500.txt" in out
    assert "https://fasttext.cc" in out and "Nothing is downloaded" in out

    found = results_of(tmp_path / "out")
    assert found["experiment"] == "table1"
    assert found["versions"]["gwfast"] == gwfast.__version__
    assert found["paper"]["procrustes"]["accuracy"]["en-fr"] == "74.9"
    labels = [job["label"] for job in found["jobs"]]
    assert labels == ["en-fr, Procrustes", "en-fr, auto"]
    x, y = (read_embeddings(data["muse"] / f"wiki.{name}.vec") for name in ("en", "fr"))
    folder = data["muse"] / "crosslingual" / "dictionaries"
    test = read_dictionary(folder / "en-fr.5000-6500.txt")
    result = gwfast.align(x.vectors, y.vectors, n_words=100)
    expected = evaluate(result, test, x.words, y.words, convention="muse")
    refined = evaluate(result.refine(), test, x.words, y.words, methods=["csls"], convention="muse")
    expected["refined"] = refined["csls"]
    scores = found["jobs"][1]["result"]["scores"]
    for method, row in (
        ("coupling", "GW auto: plan"),
        ("nn", "GW auto: nearest"),
        ("csls", "GW auto: CSLS"),
        ("refined", "GW auto: refined, CSLS"),
    ):
        at = expected[method].at
        assert scores[method]["P@1"] == pytest.approx(at[1], abs=1e-12)
        assert scores[method]["P@10"] == pytest.approx(at[10], abs=1e-12)
        assert scores[method]["queries"] == expected[method].n_queries
        assert cells(out, row, "here")[0] == f"{100 * at[1]:.1f}"
    queries = expected["csls"].n_queries
    assert cells(out, "all other methods", "scored")[0] == str(queries)
    assert found["jobs"][1]["result"]["gw"]["gw_cost"] == pytest.approx(result.gw.gw_cost, rel=1e-6)
    check_by_hand(found["jobs"][0]["result"], x, y, folder)


def check_by_hand(result, x, y, folder):
    """Normalized, mapped by the SVD of the training pairs, ranked by cosine."""
    sides = []
    for side in (x, y):
        rows = side.vectors.astype(np.float64)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        rows -= rows.mean(axis=0)
        sides.append(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    at_x, at_y = ({word: k for k, word in enumerate(side.words)} for side in (x, y))
    known = [
        (at_x[word], at_y[other])
        for word, others in read_dictionary(folder / "en-fr.0-5000.txt").items()
        for other in sorted(others)
        if word in at_x and other in at_y
    ]
    rows, columns = np.array(known).T
    assert result["pairs"] == len(known)
    u, _, vt = np.linalg.svd(sides[0][rows].T @ sides[1][columns])
    best = (sides[0] @ u @ vt @ sides[1].T).argmax(axis=1)
    hits = [
        best[at_x[word]] in {at_y[other] for other in others if other in at_y}
        for word, others in read_dictionary(folder / "en-fr.5000-6500.txt").items()
        if word in at_x and any(other in at_y for other in others)
    ]
    score = result["scores"]["nn"]
    assert score["queries"] == len(hits)
    assert score["P@1"] == pytest.approx(np.mean(hits), abs=1.5 / len(hits))


@pytest.mark.slow
def test_table1_without_training_dictionary(run, data, tmp_path):
    """Plain names below --data, compressed vectors; one direction only."""
    folder = tmp_path / "plain"
    folder.mkdir()
    for name in ("en", "fr"):
        text = (data["muse"] / f"wiki.{name}.vec").read_bytes()
        (folder / f"wiki.{name}.vec.gz").write_bytes(gzip.compress(text))
    test = data["muse"] / "crosslingual" / "dictionaries" / "en-fr.5000-6500.txt"
    (folder / test.name).write_bytes(test.read_bytes())
    options = "--pairs", "en-fr", "--n-words", 100, "--quiet"
    command = "table1", "--data", folder, *options
    status, out, err = run(*command)
    # Of few words the search is not sure.
    assert status == 0 and len(err.splitlines()) == err.count("'uncertain'")
    assert "Procrustes of en-fr: crosslingual/dictionaries/en-fr.0-5000.txt" in out
    assert float(cells(out, "GW auto: plan", "here")[0]) > 0
    files = ["en-fr.5000-6500.txt", "wiki.en.vec.gz", "wiki.fr.vec.gz"]
    assert tree(folder) == files
    assert tree(tmp_path) == ["plain", *(f"plain/{name}" for name in files)]
    # What was read is kept where that is asked for, and the files need not stay.
    assert accuracies(run(*command, "--cache")[1]) == accuracies(out)
    assert "wiki.en.vec.gz.npz" in tree(folder)
    for name in ("en", "fr"):
        (folder / f"wiki.{name}.vec.gz").unlink()
        (folder / f"wiki.{name}.vec.gz.npz").rename(folder / f"wiki.{name}.npz")
    assert accuracies(run(*command)[1]) == accuracies(out)


@pytest.mark.slow
def test_table2(run, narrow_data, tmp_path):
    status, out, err = run(
        "table2", "--data", narrow_data["dinu"], "--n-words", 60, "--epsilon", "auto",
        "--epsilon", "4e-4", "--scale-costs", "mean", "--output", "out",
    )  # fmt: skip
    assert status == 0, err
    assert cells(out, "G-W + normalize", "paper") == ["49.21"]
    assert cells(out, "Artetxe et al. 2018", "paper")[0] == "48.53"
    for row in ("GW auto / mean: CSLS", "GW 4e-4 / mean: plan"):
        assert 0 <= float(cells(out, row, "here")[0]) <= 100
    for name in ("de", "fi"):
        assert f"en-{name}: {name.upper()}.200K.cbow1" in out
    assert "get_data.sh" in out
    jobs = results_of(tmp_path / "out")["jobs"]
    epsilons = {job["label"]: job["result"]["gw"]["epsilon"] for job in jobs}
    assert list(epsilons) == ["en-it, auto / mean", "en-it, 4e-4 / mean"]
    assert epsilons["en-it, 4e-4 / mean"] == 4e-4
