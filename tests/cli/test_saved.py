"""What a folder of results is good for, and JSON for scripts."""

import json
import shutil

import numpy as np
import pytest
from helpers.cli import ALIGN, FEW, N, write
from helpers.outcomes import HARD, outcome
from helpers.outcomes import N as N_HARD

import gwfast
from gwfast.words import read_embeddings


@pytest.fixture
def saved(files, solved):
    shutil.copytree(solved, files / "saved")
    return files / "saved"


def test_words_are_translated(run, saved):
    status, out, err = run("translate", "saved", "s7", "%", "-k", 3)
    assert (status, err) == (0, "")
    header, *rows = (line.split("\t") for line in out.splitlines())
    lines = (saved / "translations.tsv").read_text("utf-8").splitlines()
    assert "\t".join(header) == lines[0]
    assert [row[:3:2] for row in rows[::3]] == [["s7", "t7"], ["%", "t2"]]
    assert [row[1] for row in rows] == ["1", "2", "3"] * 2
    assert set(map("\t".join, rows)) < set(lines)


def test_translations_as_json(run, saved):
    status, out, err = run("translate", "saved", "[bold]", "s9", "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert list(found) == ["[bold]", "s9"]
    assert len(found["s9"]["csls"]) == 5 and found["s9"]["mutual"] is True
    assert found["[bold]"]["csls"][0]["word"] == "t0"
    # The cloud and its rotated copy match one to one, and the plan is sharp.
    assert 0.5 < found["[bold]"]["coupling"][0]["share"] <= 1.0


def test_tables_of_masses_are_told_as_such(run, saved):
    """Those that earlier versions wrote."""
    table = saved / "translations.tsv"
    text = table.read_text("utf-8")
    table.write_text(text.replace("coupling_share", "coupling_score"), "utf-8")
    out = run("translate", "saved", "s9", "--json")[1]
    assert list(json.loads(out)["s9"]["coupling"][0]) == ["word", "mass"]
    assert "\tcoupling_score\t" in run("translate", "saved", "s9")[1]


def test_words_that_are_not_there_are_told(run, saved):
    status, out, err = run("translate", "saved", "S9", "nothing", "s9", "--json")
    assert status == 1 and list(json.loads(out)) == ["s9"]
    assert err.splitlines() == [
        "gwfast: 'S9' is not among the source words; there is 's9'",
        "gwfast: 'nothing' is not among the source words",
    ]
    status, out, err = run("translate", "saved", "nothing")
    assert (status, out) == (1, "")


def test_hard_words(run, tmp_path, monkeypatch):
    """Each is found as it is, and none commands the terminal."""
    folder = tmp_path / "hard"
    folder.mkdir()
    write(outcome(), folder)
    asked = [word for word in HARD if "\0" not in word and word != "\ud800"]
    status, out, _ = run("translate", folder, "--json", "--", *asked)
    found = json.loads(out)
    assert status == 0 and list(found) == asked
    words = {f"{word}!" for word in [*HARD, *(f"s{i}" for i in range(N_HARD))]}
    assert {row["word"] for one in found.values() for row in one["csls"]} <= words
    for terminal in (False, True):
        if terminal:
            monkeypatch.setenv("FORCE_COLOR", "1")
            monkeypatch.setenv("NO_COLOR", "1")
        status, out, err = run("translate", folder, "--", *asked)
        assert (status, err) == (0, "")
        assert not set("\x85\u2028" + "\u202e" * terminal) & set(out)
        assert "\x1b[31m" not in out


def test_a_folder_is_loaded(run, files, saved, monkeypatch):
    """It maps and translates, words and vectors, in Python as on the command line."""
    spaces = gwfast.Alignment.load("saved")
    x = read_embeddings(files / "a.vec")
    assert spaces.words[0] == x.words
    for asked in (["s7", "%"], x.vectors[[7, 2]]):
        best = spaces.translate(asked, k=1).indices[:, 0]
        assert [spaces.words[1][row] for row in best] == ["t7", "t2"]
    (files / "empty").mkdir()
    with pytest.raises(ValueError, match=r"got empty without mapping\.npz"):
        gwfast.Alignment.load("empty")


@pytest.mark.parametrize("side", ["source", "target"])
def test_new_vectors_are_mapped(run, files, saved, side):
    name = {"source": "a.vec", "target": "b.vec"}[side]
    given = read_embeddings(files / name)
    arguments = "map", "saved", name, "--side", side, "--max-vocab", 9
    status, out, err = run(*arguments, "--output", "new.npz")
    assert (status, out, err) == (0, "new.npz: 9 words, 6 columns\n", "")
    mapped = read_embeddings(files / "new.npz")
    assert mapped.words == given.words[:9]
    spaces = gwfast.Alignment.load(saved / "mapping.npz")
    spaces.save("kept")  # a file that Python has saved
    assert run("map", "kept", *arguments[2:])[1] == run(*arguments)[1]
    use = spaces.transform if side == "source" else spaces.transform_target
    np.testing.assert_array_equal(mapped.vectors, use(given.vectors[:9]))
    status, out, err = run(*arguments)
    (files / "piped.vec").write_text(out, encoding="utf-8")
    piped = read_embeddings(files / "piped.vec")
    assert (status, err, piped.words) == (0, "", mapped.words)
    np.testing.assert_array_equal(piped.vectors, mapped.vectors)
    assert run(*arguments, "--output", "new.npz")[0] == 2
    status, out, _ = run(*arguments, "--output", "new.npz", "--force", "--json")
    assert json.loads(out)["words"] == 9


def test_bad_input(run, files, saved):
    (files / "c.vec").write_text("a 1 2\n")
    (files / "other").mkdir()
    (files / "other" / "translations.tsv").write_text("a\tb\n")
    for command, message in (
        ("translate none x", "Path 'none' does not exist"),
        ("translate . x", "got . without translations.tsv"),
        ("translate other x", "must begin with the columns source, rank"),
        ("translate .", "Missing argument 'WORD...'"),
        ("map . a.vec", "got . without mapping.npz"),
        ("map saved c.vec", "c.vec: x must have 6 columns, got 2"),
        ("map saved a.vec --json", "--json needs --output"),
        ("map saved a.vec --output x", "--output must end in .vec"),
        ("map saved a.vec --output x/y.vec", "in an existing folder"),
        ("map a.vec a.vec", "a.vec: damaged, or no file of Alignment"),
    ):
        status, out, err = run(*command.split())
        assert (status, out, err.count("\n")) == (2, "", 1), command
        assert message in err


def test_an_alignment_as_json(run, files):
    arguments = *ALIGN, "--dictionary", "pairs.txt", "--json"
    status, out, err = run(*arguments, "--time-limit", 1e-6)
    assert status == 0 and out.count("\n") == 1
    found = json.loads(out)
    assert found["gw"]["status"] == "time_limit" and "gwfast: warning: " in err
    assert found["translations"]["s59"][0].startswith("t")
    assert found["mutual_pairs"] is None
    status, out, err = run(*arguments, "--output", "out")
    assert (status, err) == (0, f"gwfast: warning: {FEW}\n")
    found = json.loads(out)
    assert found["refinement"][0]["n_pairs"] == N
    assert found == json.loads((files / "out" / "result.json").read_text("utf-8"))
    assert found["accuracy"]["csls"]["P@1"] == 1.0 and found["mutual_pairs"] == N


def test_dictionaries_of_other_languages_are_told_of(run, files):
    """By chance they have a pair in common with these."""
    wrong = "".join(f"x{i} y{i}\n" for i in range(500)) + "s5 t5\n"
    (files / "wrong.txt").write_text(wrong)
    status, out, err = run(*ALIGN, "--dictionary", "wrong.txt", "--json")
    assert status == 0
    assert err == (
        "gwfast: warning: both words of a pair are in the vocabularies for 0.2% of the"
        " dictionary's words (1 of 501): is it of other languages, or the wrong way"
        " round (--reverse-dictionary)?\n"
        f"gwfast: warning: {FEW}\n"
    )
    assert "0.2% of the dictionary" in json.loads(out)["warnings"][0]


def test_dictionaries_the_wrong_way_round_are_told_of(run, files):
    lines = (files / "pairs.txt").read_text().splitlines()
    turned = "".join(" ".join(reversed(line.split())) + "\n" for line in lines)
    (files / "turned.txt").write_text(turned)
    arguments = *ALIGN, "--dictionary", "turned.txt"
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert "no such pair; the other way round there are 60: --reverse-dict" in err
    (files / "turned.txt").write_text(turned + "s5 t5\n")
    status, _, err = run(*arguments)
    assert status == 0
    assert "1.6% of the dictionary's words (1 of 61), and for 60 the other way" in err
    # Words spelt alike in both languages do not hide it.
    alike = "".join(f"s{i} t{i}\n" for i in range(3, 12))
    (files / "turned.txt").write_text(turned + alike)
    assert "and for 60 the other way" in run(*arguments)[2]


def test_dictionaries_that_fit_are_not_doubted(run, files):
    """A large one, and a small one."""
    pairs = (files / "pairs.txt").read_text()
    large = pairs + "".join(f"x{i} y{i}\n" for i in range(5000))
    (files / "large.txt").write_text(large)
    (files / "small.txt").write_text("s5 t5\n")
    for name in ("large.txt", "small.txt"):
        _, _, err = run(*ALIGN, "--dictionary", name)
        assert err == f"gwfast: warning: {FEW}\n"
