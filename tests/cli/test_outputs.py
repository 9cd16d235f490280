"""The folder of results: what is in the files, and that others can read them."""

import json
import re

import numpy as np
import pytest
from helpers.cli import write
from helpers.marks import mostly_slow
from helpers.outcomes import HARD, N_TAKING_PART, N, changed, csls_best, outcome, sides

from gwfast.words import Embeddings, read_dictionary, read_embeddings

ALWAYS = {
    "mapping.npz", "translations.tsv", "dictionary.txt", "result.json", "report.html",
    "dynamics.png",
}  # fmt: skip


@pytest.fixture(scope="module")
def made():
    return outcome()


@pytest.fixture(scope="module")
def folder(made, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    write(made, folder)
    return folder


@pytest.fixture
def no_pictures(monkeypatch):
    """They take a second."""
    monkeypatch.setattr("gwfast.cli.outputs.draw_dynamics", lambda *_: None)
    monkeypatch.setattr("gwfast.cli.page.render", lambda _: "")


def table(folder):
    text = (folder / "translations.tsv").read_bytes().decode("utf-8")
    header, *rows = (line.split("\t") for line in text.removesuffix("\n").split("\n"))
    return header, rows


def test_files(folder):
    assert {path.name for path in folder.iterdir()} == ALWAYS


def test_every_line_of_translations_has_its_fields(folder):
    header, rows = table(folder)
    assert header == [
        "source", "rank", "csls", "csls_score", "coupling", "coupling_share", "mutual",
    ]  # fmt: skip
    assert len(rows) == N * 10
    assert {len(row) for row in rows} == {7}
    assert [int(row[1]) for row in rows] == list(range(1, 11)) * N
    assert all(row[4] and row[5] for row in rows[: 10 * N_TAKING_PART])
    assert not any(row[4] or row[5] for row in rows[10 * N_TAKING_PART :])


def test_the_table_says_the_share_of_the_mass_of_a_word(made, folder):
    """It had the mass itself, 0.0167 of 60 words."""
    _, rows = table(folder)
    plan = made.result.plan.astype(np.float64)
    shares = plan.max(axis=1) / plan.sum(axis=1)
    found = [float(row[5]) for row in rows[: 10 * N_TAKING_PART : 10]]
    np.testing.assert_allclose(found, shares, rtol=1e-3)


def test_words_of_translations_can_be_had_again(made, folder):
    """Without a character in them that ends a line or commands a terminal."""
    text = (folder / "translations.tsv").read_bytes().decode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]", text)
    assert len(text.splitlines()) == 1 + N * 10
    _, rows = table(folder)
    for side, fields in (
        (made.source, [row[0] for row in rows]),
        (made.target, [row[2] for row in rows]),
    ):
        again = {
            field.encode("latin-1", "backslashreplace").decode("unicode_escape") for field in fields
        }
        assert again <= set(side.embeddings.words)
    assert [row[0] for row in rows[::10]][16:25] == [
        r"a\tb", r"c\nd", r"e\rf", r"\x00\x1b[31m", r"\u2028", r"\ufeffbom",
        r"\ud800", r"\x85", "שלום",
    ]  # fmt: skip


@pytest.mark.parametrize("every", [3, N + 1], ids=["some", "none"])
def test_flags_are_of_the_outcome(made, tmp_path, no_pictures, every):
    """Some yes and some no, whatever the data; with none there is no dictionary."""
    flags = np.arange(1, N + 1) % every == 0
    write(changed(made, mutual=flags), tmp_path)
    _, rows = table(tmp_path)
    assert [row[6] for row in rows[::10]] == np.where(flags, "yes", "no").tolist()
    assert {row[6] for k, row in enumerate(rows) if k % 10} == {""}
    result = json.loads((tmp_path / "result.json").read_text("utf-8"))
    assert result["mutual_pairs"] == flags.sum()
    assert ((tmp_path / "dictionary.txt").read_bytes() == b"") == (flags.sum() == 0)


def test_dictionary_holds_the_mutual_pairs_that_it_can(made, folder):
    x, y = made.source.embeddings.words, made.target.embeddings.words
    forward, backward = csls_best(made.result.mapped_source, made.result.mapped_target)
    lost = {"a\tb", "c\nd", "e\rf", "\ufeffbom", "\ud800", "\x00\x1b[31m", "\x85"}
    assert lost < set(HARD)
    assert read_dictionary(folder / "dictionary.txt") == {
        x[i]: {y[j]}
        for i, j in enumerate(forward)
        if backward[j] == i and not {x[i], y[j].removesuffix("!")} & lost
    }


def test_result(made, folder):
    result = json.loads((folder / "result.json").read_bytes())
    steps = made.result.refinement
    assert [step["n_pairs"] for step in result["refinement"]] == [step.n_pairs for step in steps]
    score = result["accuracy"]["csls"]
    assert score["coverage"] == 1.0
    assert score["convention"] == "gwfast"
    assert score["queries"] == score["dictionary_words"] == N // 2
    for k in (1, 5, 10):
        low, high = score["intervals_95"][f"P@{k}"]
        assert 0 <= low <= score[f"P@{k}"] <= high <= 1
    # The bounds are the shares from which this one is 1.96 standard errors away.
    for bound in score["intervals_95"]["P@1"]:
        if bound != score["P@1"]:
            error = np.sqrt(bound * (1 - bound) / score["queries"])
            assert abs(bound - score["P@1"]) == pytest.approx(1.959964 * error)


@pytest.mark.parametrize("refine", mostly_slow([0, 2], fast=[2]))
def test_mapping_is_enough_to_map_both_sides(tmp_path, no_pictures, refine):
    made = outcome(refine=refine)
    write(made, tmp_path)
    with np.load(tmp_path / "mapping.npz") as saved:
        assert ("target_mapping" in saved) == (refine > 0)
        mapped = []
        for side in ("source", "target"):
            x = getattr(made, side).embeddings.vectors.astype(np.float64)
            means = iter(saved[f"{side}_means"])
            for step in saved[f"{side}_steps"].tolist():
                if step == "center":
                    x = x - next(means)
                else:
                    x = x / np.linalg.norm(x, axis=1, keepdims=True)
            name = "mapping" if side == "source" else "target_mapping"
            mapped.append(x @ saved[name] if name in saved else x)
    np.testing.assert_allclose(mapped[0], made.result.mapped_source, atol=1e-5)
    np.testing.assert_allclose(mapped[1], made.result.mapped_target, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind, suffix", [("text", "vec"), ("binary", "bin")])
def test_vectors(tmp_path, no_pictures, kind, suffix):
    made = outcome(write_vectors=kind)
    write(made, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names - ALWAYS == {f"source.{suffix}", f"target.{suffix}"}
    for side in ("source", "target"):
        read = read_embeddings(tmp_path / f"{side}.{suffix}")
        mapped = getattr(made.result, f"mapped_{side}")
        np.testing.assert_allclose(read.vectors, mapped, rtol=1e-6, atol=1e-7)
        words = getattr(made, side).embeddings.words
        assert len(read.words) == len(words)
        same = [row for row, word in enumerate(words) if word.isalnum()]
        assert [read.words[row] for row in same] == [words[row] for row in same]
    # Both are in one space: every word finds its own.
    nearest = (made.result.mapped_source @ made.result.mapped_target.T).argmax(axis=1)
    assert (nearest == np.arange(N)).mean() > 0.9


@pytest.mark.slow
def test_words_stay_distinct_without_their_spaces(tmp_path, no_pictures):
    source, target = sides(hard=False)
    words = ("a b", "a_b", "a\tb", "a_b_", " ", "_", *source.words[6:])
    source = Embeddings(words, source.vectors)
    write(outcome(source=source, target=target, write_vectors="text"), tmp_path)
    read = read_embeddings(tmp_path / "source.vec").words
    assert len(set(read)) == N
    # Those that can be written as they are, are.
    assert (read[1], read[3], read[5]) == ("a_b", "a_b_", "_")
    assert read[6:] == words[6:]


def test_without_dictionary_and_refinement(tmp_path, no_pictures):
    write(outcome(gold=False, refine=0), tmp_path)
    result = json.loads((tmp_path / "result.json").read_bytes())
    assert result["accuracy"] == {}
    assert result["refinement"] == []
    assert len(table(tmp_path)[1]) == N * 10


def test_same_outcome_same_bytes(made, folder, tmp_path):
    write(made, tmp_path)
    for name in ALWAYS:
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes(), name
