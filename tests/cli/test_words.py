"""What the command line offers to people who translate words."""

import json
import re

import numpy as np
import pytest
from helpers.cli import ALIGN, N
from helpers.vector_files import write_vectors

from gwfast.words import read_embeddings


@pytest.fixture
def align(run):
    """What an alignment prints as JSON."""

    def call(*options):
        status, out, err = run(*ALIGN, "--json", *options)
        assert status == 0, err
        return json.loads(out)

    return call


@pytest.mark.slow
@pytest.mark.parametrize("options, two_sided", [([], True), (["--refine", 0], False)])
def test_the_kind_of_refinement(run, files, monkeypatch, options, two_sided):
    monkeypatch.setattr("gwfast.cli.page.render", lambda outcome: "")  # takes a second
    status, out, _ = run(*ALIGN, "--output", "out", *options)
    assert status == 0
    refined = "--refine" not in options
    assert ("refined\t" in out and "mutual matches" in out) == refined
    with np.load(files / "out" / "mapping.npz") as arrays:
        assert ("target_mapping" in arrays) == two_sided
        assert (len(arrays["refinement"]) > 0) == refined
        if not refined:
            gram = arrays["mapping"] @ arrays["mapping"].T
            np.testing.assert_allclose(gram, np.eye(6), atol=1e-5)


@pytest.mark.slow
def test_stale_vectors_do_not_stay(run, files):
    status, out, err = run(*ALIGN, "--vectors", "text")
    assert (status, out) == (2, "")
    assert err == "gwfast: error: --vectors needs --output\n"
    given = *ALIGN, "--output", "out", "--force"
    assert run(*given, "--vectors", "text")[0] == 0
    (files / "out" / "notes.txt").write_text("mine")
    assert len(read_embeddings(files / "out" / "source.vec")) == N
    assert run(*given, "--vectors", "binary")[0] == 0
    names = {path.name for path in (files / "out").iterdir()}
    assert {"source.bin", "target.bin", "notes.txt"} <= names
    assert "source.vec" not in names
    # Without a result there, nothing in a folder is a result of ours.
    (files / "work").mkdir()
    (files / "work" / "target.vec").write_text("mine")
    assert run(*ALIGN, "--output", "work", "--force")[0] == 0
    assert (files / "work" / "target.vec").read_text() == "mine"


def test_methods_are_those_asked_for(run, align):
    methods = "barycentric,inverted_softmax,csls"
    given = "--dictionary", "pairs.txt", "--methods", methods
    assert list(align(*given)["accuracy"]) == methods.split(",")
    out = run(*ALIGN, *given)[1]
    for name in ("barycentric", "inverted softmax", "CSLS"):
        assert f"\n{name}\t" in out
    assert "nearest neighbor" not in out
    status, _, err = run(*ALIGN, "--methods", "csls,magic")
    assert status == 2
    assert "expected some of coupling, barycentric, nn" in err and "'magic'" in err


def test_conventions_score_by_their_rules(run, files, align):
    """MUSE puts words in lower case; the dictionary here has them in upper case."""
    upper = (files / "pairs.txt").read_text().upper()
    (files / "upper.txt").write_text(upper)
    given = "--dictionary", "upper.txt"
    out = run(*ALIGN, *given, "--convention", "muse")[1]
    assert "convention muse: the vocabularies cover 100.0% of the list's pairs" in out
    assert align(*given, "--convention", "muse")["accuracy"]["csls"]["queries"] == N
    status, _, err = run(*ALIGN, *given)
    assert status == 2
    assert "dictionary must have a pair whose words are in" in err


def test_the_convention_of_the_paper_takes_the_first_translation(files, align):
    """Of each line; here it is the wrong one."""
    words = read_embeddings(files / "a.vec").words
    lines = [f"{word} t{(i + 1) % N} t{i}\n" for i, word in enumerate(words)]
    (files / "pairs.lex").write_text("".join(lines))
    for convention, right in (("gwfast", 1.0), ("paper", 0.0)):
        found = align("--dictionary", "pairs.lex", "--convention", convention)
        assert found["accuracy"]["csls"]["P@1"] == pytest.approx(right, abs=0.1)


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
    arguments = "align", "bad.vec", "b.vec", "--quiet"
    status, _, err = run(*arguments)
    assert status == 2
    assert "bad.vec:7" in err and "UTF-8" in err
    status, out, _ = run(*arguments, "--encoding-errors", "skip")
    assert status == 0
    assert f"{N - 1} words, 6 columns, 1 dropped (not UTF-8)" in out
    status, out, _ = run(*arguments, "--encoding-errors", "replace")
    assert status == 0
    assert f"{N} words, 6 columns, 1 with replaced bytes\n" in out
    status, out, _ = run(*arguments, "--encoding", "latin-1")
    assert f"bad.vec: {N} words, 6 columns\n" in out


def test_rows_that_cannot_be_used(run, files):
    """The message names the options, and the option takes the rows out."""
    (files / "c.vec").write_bytes(b"a 1 2\nb\t3\t4\nc 0 0\n 5 6\nd 7 8\n")
    arguments = "convert", "c.vec", "c.npz"
    assert "a tab; --encoding-errors skip leaves such rows" in run(*arguments)[2]
    _, out, _ = run(*arguments, "--encoding-errors", "skip")
    assert out == "c.npz: 2 words, 2 columns, 3 dropped (cannot be used)\n"
    (files / "d.vec").write_bytes(b"3 2\na 1 2\nb 3 4\n")
    _, _, err = run("convert", "d.vec", "d.npz")
    assert "; --max-vocab 2 or --encoding-errors skip reads on" in err
    assert run("convert", "d.vec", "d.npz", "--max-vocab", 2)[0] == 0


def test_a_run_can_be_repeated_from_its_record(run, files):
    options = (
        "--dictionary", "pairs.txt", "--seeds", "pairs.txt", "--lower", "--max-vocab", 50,
        "--encoding", "latin-1", "--encoding-errors", "replace",
    )  # fmt: skip
    assert run("align", "a.vec", "b.vec", *options, "--output", "out")[0] == 0
    found = json.loads((files / "out" / "result.json").read_text("utf-8"))
    expected = {
        "dictionary": ["pairs.txt"], "reverse_dictionary": [], "seeds": "pairs.txt",
        "source_counts": None, "lower": True, "max_vocab": 50, "encoding": "latin-1",
        "encoding_errors": "replace",
    }  # fmt: skip
    assert expected.items() <= found["settings"].items()
    assert found["folder"] == str(files)
    shown = (files / "out" / "report.html").read_text("utf-8")
    for name in ("dictionary", "seeds", "lower", "max vocab", "encoding errors"):
        assert f"<dt>{name}</dt>" in shown
    assert shown.count("pairs.txt") == 2


def test_one_start_and_few_words_are_told_of(run, files):
    _, out, err = run(*ALIGN, "--output", "out")
    assert "start\tprofile: one start, not searched\n" in out
    assert "plans of less than 300 words are often wrong, got 60 and 60" in err
    shown = (files / "out" / "report.html").read_text("utf-8")
    assert "one start, not searched" in shown and "less than 300 words" in shown
    (files / "seeds.txt").write_text("s5 t5\n")
    out = run("align", "a.vec", "b.vec", "--quiet", "--seeds", "seeds.txt")[1]
    assert "start\tseeds: one start, not searched\n" in out


def test_the_confidence_is_told(run, files):
    _, out, _ = run("align", "a.vec", "b.vec", "--quiet", "--output", "out")
    found = json.loads((files / "out" / "result.json").read_text("utf-8"))
    confidence = f"{found['gw']['confidence']:.2f}"
    assert f" outer iterations, confidence {confidence}\n" in out
    shown = (files / "out" / "report.html").read_text("utf-8")
    assert f"<dt>confidence</dt><dd>{confidence}</dd>" in shown


def test_seeds_the_wrong_way_round_are_told_of(run, files):
    lines = [line.split() for line in (files / "pairs.txt").read_text().splitlines()]
    turned = "".join(f"{target} {source}\n" for source, target in lines)
    (files / "turned.txt").write_text(turned)
    arguments = "align", "a.vec", "b.vec", "--quiet", "--seeds", "turned.txt"
    assert f"more pairs fit the other way round, {N}" in run(*arguments)[2]
    (files / "turned.txt").write_text(turned + "s5 t5\n")
    status, _, err = run(*arguments)
    assert status == 0 and f"more pairs fit the other way round, {N}" in err


@pytest.mark.parametrize("name", ["c.bin", "c.vec.gz"])
def test_convert(run, files, name):
    status, out, err = run("convert", "a.vec", name, "--max-vocab", 7)
    assert (status, out, err) == (0, f"{name}: 7 words, 6 columns\n", "")
    given, made = read_embeddings(files / "a.vec"), read_embeddings(files / name)
    assert made.words == given.words[:7]
    np.testing.assert_array_equal(made.vectors, given.vectors[:7])
    content = (files / name).read_bytes()
    status, _, err = run("convert", "a.vec", name)
    assert status == 2
    assert f"DST must not exist without --force, got {name}" in err
    assert (files / name).read_bytes() == content
    status, out, _ = run("convert", "a.vec", name, "--force", "--json")
    assert status == 0 and json.loads(out)["words"] == N
    assert len(read_embeddings(files / name)) == N


def test_costs_can_be_scaled(align):
    steps = ("unit,mean", "unit,max")
    epsilons = [align("--normalize", text)["gw"]["epsilon"] for text in steps]
    assert (
        align("--normalize", "unit")["gw"]["epsilon"] not in epsilons and epsilons[0] != epsilons[1]
    )


def test_convert_takes_all_words_and_tells_what_it_drops(run, files):
    (files / "c.vec").write_bytes(b"a 1 2\nb\xff 3 4\nA 5 6\n")
    arguments = "convert", "c.vec", "c.bin", "--lower", "--encoding-errors", "skip"
    assert run(*arguments)[:2] == (
        0,
        "c.bin: 1 word, 2 columns, 1 dropped (duplicates), 1 dropped (not UTF-8)\n",
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
    given = {"source.vec": "a.vec", "dictionary.txt": "pairs.txt"}
    content = (files / given[name]).read_bytes()
    (files / "work").mkdir()
    (files / "work" / name).write_bytes(content)
    given[name] = f"work/{name}"
    status, _, err = run(
        "align", given["source.vec"], "b.vec", "--output", "work", "--force",
        "--dictionary", given["dictionary.txt"],
    )  # fmt: skip
    assert status == 2
    assert "--output must not hold what is read" in err and name in err
    assert (files / "work" / name).read_bytes() == content


def test_words_do_not_command_the_terminal(run, files):
    x = read_embeddings(files / "a.vec").vectors
    signs = "\x1b[31m", "\x9b", "a\nb", "\u202e"
    words = [f"{sign}w{i}" for i, sign in enumerate(signs)]
    words += [f"w{i}" for i in range(len(words), N)]
    np.savez(files / "c.npz", words=np.array(words), vectors=x)
    status, out, _ = run("align", "c.npz", "b.vec", "--quiet")
    assert status == 0
    assert not set("\x1b\x9b\u202e") & set(out)
    assert "␛[31mw0" in out


def test_a_narrow_terminal_shows_the_figures(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("FORCE_COLOR", "1")
    status, out, _ = run(*ALIGN, "--dictionary", "pairs.txt")
    assert status == 0
    out = re.sub(r"\x1b\[[0-9;]*m", "", out)
    assert out.count("1.000") == 9
    assert max(map(len, out.splitlines())) <= 50


def test_bytes_are_limited_and_more_are_read_if_asked_for(run):
    convert = "convert", "a.vec", "c.npz"
    for arguments in (convert, ALIGN):
        status, _, err = run(*arguments, "--max-bytes", "500")
        assert status == 2
        assert "a.vec:1: expected at most 500 bytes" in err
        assert "; --max-bytes sets the limit" in err
    assert run(*convert, "--max-bytes", "1000000")[0] == 0
