"""What the command line offers to people who translate words."""

import json
import re

import numpy as np
import pytest
from helpers.cli import N
from helpers.vector_files import write_vectors

from gwfast.words import read_dictionary, read_embeddings


def accuracy(folder):
    return json.loads((folder / "result.json").read_text())["accuracy"]


@pytest.mark.slow
def test_refinement_is_told_of_and_can_be_left_out(run, files):
    status, out, _ = run("align", "a.vec", "b.vec", "--quiet", "--output", "refined")
    assert status == 0
    assert "refined\t" in out and "mutual matches" in out
    summary = json.loads((files / "refined" / "result.json").read_text())
    assert summary["refinement"][0]["n_pairs"] == N
    status, out, _ = run(
        "align", "a.vec", "b.vec", "--quiet", "--output", "plain", "--refine", 0
    )
    assert status == 0
    assert "refined\t" not in out
    with np.load(files / "plain" / "mapping.npz") as arrays:
        gram = arrays["mapping"] @ arrays["mapping"].T
        assert "target_mapping" not in arrays
    np.testing.assert_allclose(gram, np.eye(6), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options, two_sided",
    [
        ([], True),
        pytest.param(["--no-whiten"], False, marks=pytest.mark.slow),
        pytest.param(["--no-whiten", "--reweight", 0.5], True, marks=pytest.mark.slow),
        pytest.param(["--reweight", 0], True, marks=pytest.mark.slow),
    ],
)
def test_the_kind_of_refinement(run, files, options, two_sided):
    arguments = ("align", "a.vec", "b.vec", "--quiet", "--output", "out")
    assert run(*arguments, *options)[0] == 0
    with np.load(files / "out" / "mapping.npz") as arrays:
        assert ("target_mapping" in arrays) == two_sided


KINDS = [("text", "vec"), pytest.param("binary", "bin", marks=pytest.mark.slow)]


@pytest.mark.parametrize("kind, suffix", KINDS)
def test_mapped_vectors_are_written_and_lie_together(run, files, kind, suffix):
    status, _, err = run(
        "align", "a.vec", "b.vec", "--quiet", "--output", "out", "--vectors", kind
    )
    assert status == 0, err
    source, target = (
        read_embeddings(files / "out" / f"{side}.{suffix}")
        for side in ("source", "target")
    )
    assert source.words == read_embeddings(files / "a.vec").words
    where = {word: row for row, word in enumerate(target.words)}
    truth = read_dictionary(files / "pairs.txt")
    order = [where[next(iter(truth[word]))] for word in source.words]
    x, y = (
        vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        for vectors in (source.vectors, target.vectors[order])
    )
    assert np.einsum("ij,ij->i", x, y).min() > 0.99


def test_vectors_want_a_folder(run):
    status, out, err = run("align", "a.vec", "b.vec", "--vectors", "text")
    assert (status, out) == (2, "")
    assert err == "gwfast: error: --vectors needs --output\n"


@pytest.mark.slow
def test_stale_vectors_do_not_stay(run, files):
    arguments = ("align", "a.vec", "b.vec", "--quiet", "--output", "out")
    assert run(*arguments, "--vectors", "text")[0] == 0
    (files / "out" / "notes.txt").write_text("mine")
    assert (files / "out" / "source.vec").exists()
    assert run(*arguments, "--vectors", "binary", "--force")[0] == 0
    names = {path.name for path in (files / "out").iterdir()}
    assert {"source.bin", "target.bin", "notes.txt"} <= names
    assert "source.vec" not in names


@pytest.mark.slow
def test_methods_are_those_asked_for(run, files):
    methods = "barycentric,inverted_softmax,csls"
    status, out, _ = run(
        "align", "a.vec", "b.vec", "--quiet", "--dictionary", "pairs.txt",
        "--output", "out", "--methods", methods,
    )  # fmt: skip
    assert status == 0
    for name in ("barycentric", "inverted softmax", "CSLS"):
        assert name in out
    assert "nearest neighbor" not in out
    assert list(accuracy(files / "out")) == methods.split(",")
    status, _, err = run("align", "a.vec", "b.vec", "--methods", "csls,magic")
    assert status == 2
    assert "expected some of coupling, barycentric, nn" in err and "'magic'" in err


@pytest.mark.slow
def test_conventions_score_by_their_rules(run, files):
    """MUSE puts words in lower case; the dictionary here has them in upper case."""
    upper = (files / "pairs.txt").read_text().upper()
    (files / "upper.txt").write_text(upper)
    arguments = ("align", "a.vec", "b.vec", "--quiet", "--dictionary", "upper.txt")
    status, out, _ = run(*arguments, "--convention", "muse", "--output", "muse")
    assert status == 0
    assert "convention muse: the vocabularies cover 100.0% of the list's pairs" in out
    assert accuracy(files / "muse")["csls"]["queries"] == N
    status, _, err = run(*arguments)
    assert status == 2
    assert "dictionary must have a pair whose words are in" in err


def test_words_in_lower_case(run, files):
    x = np.random.default_rng(0).standard_normal((N, 4))
    words = [f"W{i}" for i in range(N - 1)] + ["w0"]
    write_vectors(files / "c.vec", words, x)
    status, out, _ = run("align", "c.vec", "b.vec", "--lower", "--quiet")
    assert status == 0
    assert f"{N - 1} words, 4 columns, 1 dropped (duplicates)" in out


def test_words_that_are_not_utf8(run, files):
    text = (files / "a.vec").read_bytes().replace(b"s5 ", b"s\xff ")
    (files / "bad.vec").write_bytes(text)
    status, _, err = run("align", "bad.vec", "b.vec", "--quiet")
    assert status == 2
    assert "bad.vec:7" in err and "UTF-8" in err
    arguments = ("align", "bad.vec", "b.vec", "--quiet", "--encoding-errors")
    status, out, _ = run(*arguments, "skip")
    assert status == 0
    assert f"{N - 1} words, 6 columns, 1 dropped (not UTF-8)" in out
    status, out, _ = run(*arguments, "replace")
    assert status == 0 and f"{N} words" in out


@pytest.mark.slow
def test_a_cache_is_written_only_where_asked_for(run, files):
    before = sorted(files.iterdir())
    assert run("align", "a.vec", "b.vec", "--quiet")[0] == 0
    assert sorted(files.iterdir()) == before
    first = run("align", "a.vec", "b.vec", "--quiet", "--cache")
    made = set(files.iterdir()) - set(before)
    assert {path.name for path in made} == {"a.vec.npz", "b.vec.npz"}
    again = run("align", "a.vec", "b.vec", "--quiet", "--cache")
    assert first[0] == again[0] == 0


@pytest.mark.parametrize("name", ["c.vec", "c.txt", "c.bin", "c.npz", "c.vec.gz"])
def test_convert(run, files, name):
    status, out, err = run("convert", "a.vec", name, "--max-vocab", 7)
    assert (status, err) == (0, "")
    assert out == f"{name}: 7 words, 6 columns\n"
    given, made = read_embeddings(files / "a.vec"), read_embeddings(files / name)
    assert made.words == given.words[:7]
    np.testing.assert_array_equal(made.vectors, given.vectors[:7])
    content = (files / name).read_bytes()
    status, _, err = run("convert", "a.vec", name)
    assert status == 2
    assert f"DST must not exist without --force, got {name}" in err
    assert (files / name).read_bytes() == content
    assert run("convert", "a.vec", name, "--force")[0] == 0
    assert len(read_embeddings(files / name)) == N


@pytest.mark.slow
def test_costs_can_be_scaled(run, files):
    arguments = ("align", "a.vec", "b.vec", "--quiet", "--output")
    assert run(*arguments, "plain")[0] == 0
    assert run(*arguments, "scaled", "--scale-costs", "mean")[0] == 0
    one, other = (
        json.loads((files / name / "result.json").read_text())["gw"]["epsilon"]
        for name in ("plain", "scaled")
    )
    assert one != other


def test_convert_takes_all_words_and_tells_what_it_drops(run, files):
    (files / "c.vec").write_bytes(b"a 1 2\nb\xff 3 4\nA 5 6\n")
    status, out, _ = run(
        "convert", "c.vec", "c.bin", "--lower", "--encoding-errors", "skip"
    )
    assert status == 0
    assert (
        out
        == "c.bin: 1 word, 2 columns, 1 dropped (duplicates), 1 dropped (not UTF-8)\n"
    )
    status, _, err = run("convert", "c.vec", "d.bin")
    assert status == 2
    assert "--encoding-errors replace or skip reads on" in err
    (files / "e.vec").write_text("1 2\nin spite of 1 2\n")
    assert run("convert", "e.vec", "e.bin")[0] == 2
    assert run("convert", "e.vec", "e.bin", "--space", "_")[0] == 0
    assert read_embeddings(files / "e.bin").words == ("in_spite_of",)


@pytest.mark.parametrize(
    "name, message",
    [
        ("c.npy", "DST must end in .vec, .txt, .bin or .npz"),
        ("no/c.vec", "DST must be in an existing folder"),
    ],
)
def test_convert_refuses_what_it_cannot_write(run, name, message):
    status, out, err = run("convert", "a.vec", name)
    assert (status, out) == (2, "")
    assert message in err


@pytest.mark.parametrize("name", ["source.vec", "dictionary.txt"])
def test_inputs_are_not_overwritten(run, files, name):
    folder = files / "work"
    folder.mkdir()
    is_list = name == "dictionary.txt"
    content = (files / ("pairs.txt" if is_list else "a.vec")).read_bytes()
    (folder / name).write_bytes(content)
    source = "a.vec" if is_list else f"work/{name}"
    dictionary = f"work/{name}" if is_list else "pairs.txt"
    status, _, err = run(
        "align", source, "b.vec", "--dictionary", dictionary,
        "--output", "work", "--force", "--quiet",
    )  # fmt: skip
    assert status == 2
    assert "--output must not hold what is read" in err and name in err
    assert (folder / name).read_bytes() == content


@pytest.mark.slow
def test_files_that_are_not_ours_stay(run, files):
    folder = files / "work"
    folder.mkdir()
    (folder / "target.vec").write_text("mine")
    arguments = ("align", "a.vec", "b.vec", "--output", "work", "--force", "--quiet")
    assert run(*arguments)[0] == 0
    assert (folder / "target.vec").read_text() == "mine"


@pytest.mark.slow
def test_the_convention_of_the_paper_takes_the_first_translation(run, files):
    """Of each line; here it is the wrong one."""
    words = read_embeddings(files / "a.vec").words
    lines = [f"{word} t{(i + 1) % N} t{i}\n" for i, word in enumerate(words)]
    (files / "pairs.lex").write_text("".join(lines))
    arguments = ("align", "a.vec", "b.vec", "--quiet", "--dictionary", "pairs.lex")
    for convention, right in (("gwfast", 1.0), ("paper", 0.0)):
        folder = f"by-{convention}"
        status, _, err = run(*arguments, "--convention", convention, "--output", folder)
        assert status == 0, err
        assert accuracy(files / folder)["csls"]["P@1"] == pytest.approx(right, abs=0.1)


def test_words_do_not_command_the_terminal(run, files):
    x = read_embeddings(files / "a.vec").vectors
    words = [
        f"{sign}w{i}" for i, sign in enumerate(("\x1b[31m", "\x9b", "a\nb", "\u202e"))
    ]
    words += [f"w{i}" for i in range(len(words), N)]
    np.savez(files / "c.npz", words=np.array(words), vectors=x)
    status, out, _ = run("align", "c.npz", "b.vec", "--quiet")
    assert status == 0
    assert not set("\x1b\x9b\u202e") & set(out)
    assert "␛[31mw0" in out


def test_a_narrow_terminal_shows_the_figures(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("FORCE_COLOR", "1")
    status, out, _ = run(
        "align", "a.vec", "b.vec", "--dictionary", "pairs.txt", "--quiet"
    )
    assert status == 0
    out = re.sub(r"\x1b\[[0-9;]*m", "", out)
    assert out.count("1.000") == 9
    assert max(map(len, out.splitlines())) <= 50


def test_bytes_are_limited_and_more_are_read_if_asked_for(run, files):
    for arguments in (
        ("convert", "a.vec", "c.npz", "--max-bytes", "500"),
        ("align", "a.vec", "b.vec", "--quiet", "--max-bytes", "500"),
    ):
        status, _, err = run(*arguments)
        assert status == 2
        assert "a.vec: expected at most 500 bytes" in err
        assert "; --max-bytes sets the limit" in err
    assert run("convert", "a.vec", "c.npz", "--max-bytes", "1000000")[0] == 0


def test_a_wrong_step_of_normalization(run):
    status, _, err = run("align", "a.vec", "b.vec", "--normalize", "unit,whiten")
    assert status == 2
    assert "expected unit and center, with commas between, or none, got 'whiten'" in err
