"""The command line: what it prints and writes, and how it fails."""

import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from helpers.cli import ALIGN, FEW, main
from helpers.files import tree
from helpers.marks import pairwise
from helpers.processes import environment, full_disk, kill_once_written, on_terminal, run_python
from helpers.vector_files import write_vectors

import gwfast
from gwfast.words import read_embeddings

FILES = [
    "dictionary.txt", "dynamics.png", "mapping.npz", "report.html", "result.json",
    "translations.tsv",
]  # fmt: skip


def command(*arguments, cwd, **changes):
    """The real thing: a process whose output is piped."""
    return subprocess.run(
        [sys.executable, "-m", "gwfast", *arguments],
        cwd=cwd,
        env=environment(**changes),
        capture_output=True,
        timeout=120,
        check=False,
    )


def test_align_without_output_shows_translations(run, files):
    before = tree(files)
    status, out, err = run("align", "a.vec", "b.vec")
    assert status == 0
    assert "a.vec: 60 words, 6 columns" in out
    assert "60 x 60 words" in out
    assert "gw_cost" in out
    table = out[out.index("translations") :].splitlines()[2:]
    assert [len(line.split("\t")) for line in table] == [4] * 20
    assert sum(line.startswith("s") for line in table) >= 17
    # Words that terminal markup would swallow are words like any other.
    assert table[0].startswith("[bold]\t")
    assert ":smile:" in run("align", "a.vec", "b.vec", "--max-vocab", 20)[1]
    assert "P@1" not in out
    assert err.splitlines()[-1].startswith("nothing was written: --output DIR")
    assert run("align", "a.vec", "b.vec", "--quiet")[2] == f"gwfast: warning: {FEW}\n"
    assert err.startswith("start 1: profile") and "start 2" not in err
    assert "solving from" in err and ": gw_cost " in err
    assert tree(files) == before


def test_dictionary_gives_scores(run, files):
    status, out, _ = run("align", "a.vec", "b.vec", "--dictionary", "pairs.txt")
    assert status == 0
    for name in ("P@1", "P@5", "P@10", "coupling", "nearest neighbor", "CSLS"):
        assert name in out
    assert out.count("60 of 60") == 3
    # The truth is an isometry, and the solver finds it.
    assert out.count("\t1.000") >= 9
    assert out.count("0.940 to 1.000") == 3  # Wilson: 60 hits of 60
    assert "convention gwfast: the vocabularies cover 100.0% of the list's words" in out
    reverse = "".join(
        " ".join(reversed(line.split())) + "\n"
        for line in (files / "pairs.txt").read_text().splitlines()
    )
    (files / "reverse.txt").write_text(reverse)
    _, again, _ = run("align", "a.vec", "b.vec", "--reverse-dictionary", "reverse.txt")
    assert again.splitlines()[-6:] == out.splitlines()[-6:]


def test_output(run, files):
    status, out, _ = run(
        *ALIGN, "--dictionary", "pairs.txt", "--output", "result", "--n-words", 50,
        "--epsilon", "0.01", "--threads", 1,
    )  # fmt: skip
    assert status == 0
    folder = files / "result"
    assert tree(folder) == FILES
    assert not [name for name in tree(files) if ".gwfast" in name]
    assert folder.stat().st_mode & 0o777 == 0o777 & ~_umask()

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    text = (folder / "result.json").read_text(encoding="utf-8")
    result = json.loads(text, parse_constant=refuse)
    assert result["versions"]["gwfast"] == gwfast.__version__
    assert result["settings"]["epsilon"] == 0.01
    assert result["settings"]["normalize"] == ["unit", "center", "unit"]
    assert result["inputs"]["source"]["name"] == "a.vec"
    assert result["plan_shape"] == [50, 50]
    assert result["gw"]["epsilon"] == 0.01
    assert len(result["history"]) == result["gw"]["n_iter"]
    assert result["history"][-1]["iteration"] == result["gw"]["n_iter"]
    for method in ("coupling", "nn", "csls"):
        score = result["accuracy"][method]
        assert f"{score['P@1']:.3f}" in out
        assert 0 <= score["P@1"] <= score["P@5"] <= score["P@10"] <= 1
    assert result["accuracy"]["csls"]["queries"] == 60
    assert result["accuracy"]["coupling"]["queries"] < 50  # both words took part

    _, *lines = (folder / "translations.tsv").read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    assert [row[0] for row in rows[::10]] == list(read_embeddings("a.vec").words)
    scores = np.array([float(row[3]) for row in rows]).reshape(60, 10)
    assert (np.diff(scores) <= 0).all()
    # The figures can be had from the file: a hit is s3 -> t3.
    pairs = (files / "pairs.txt").read_text().splitlines()
    truth = dict(line.split() for line in pairs)
    hits = np.mean([truth[row[0]] == row[2] for row in rows[::10]])
    assert hits == pytest.approx(result["accuracy"]["csls"]["P@1"])
    assert all(row[4].startswith("t") for row in rows[: 50 * 10])


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.slow
def test_existing_output_folder(run, files):
    folder = files / "result"
    arguments = *ALIGN, "--output", "result"
    folder.mkdir()
    assert run(*arguments)[0] == 0
    assert tree(folder) == FILES
    (folder / "notes.txt").write_text("mine")
    (folder / "result.json").write_text("old")
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith("gwfast: error: --output must be empty without --force")
    assert (folder / "result.json").read_text() == "old"
    assert run(*arguments, "--force")[0] == 0
    assert (folder / "result.json").read_text() != "old"
    assert tree(folder) == sorted([*FILES, "notes.txt"])


COUNTS = "--source-counts", "a.counts", "--target-counts", "b.counts"


@pytest.mark.parametrize(
    "options",
    [
        ("--marginals", "zipf"),
        ("--marginals", "counts", *COUNTS),
        ("--tier", "tiled", "--memory-limit", "1GB"),
        ("--tier", "tiled"),
    ],
)
def test_options_reach_the_solver(run, options):
    arguments = "align", "a.vec", "b.vec", "--n-words", 40, "--json", "--quiet"
    status, out, err = run(*arguments, *options)
    assert status == 0, err
    settings = json.loads(out)["settings"]
    for name, value in zip(options[::2], options[1::2], strict=True):
        assert settings.get(name[2:].replace("-", "_"), value) == value


def test_a_time_limit_is_told_and_what_there_is_is_written(run, files):
    arguments = "align", "a.vec", "b.vec", "--output", "soon", "--time-limit"
    status, _, err = run(*arguments, "1e-6")
    assert status == 0, err
    found = json.loads((files / "soon" / "result.json").read_text())
    assert found["settings"]["time_limit"] == 1e-6
    assert found["gw"]["status"] == "time_limit"
    remedy = "try a larger --time-limit, a larger --tol, or a smaller --n-words"
    assert f"(at most 1.0e-05): {remedy}\n" in err
    assert found["gw"]["advice"] == remedy
    assert remedy in (files / "soon" / "report.html").read_text()
    status, _, err = run(*arguments, "0", "--force")
    assert status == 2
    assert "time-limit" in err


def test_few_words(run, files):
    """Fewer words than the ten translations, and more than one dimension for each."""
    write_vectors(files / "c.vec", ["x", "y", "z"], np.eye(3) + 0.1)
    status, out, err = run("align", "c.vec", "c.vec", "--json")
    assert status == 0, err
    found = json.loads(out)["translations"]
    assert [*found] == [*"xyz"]
    assert all(sorted(best) == [*"xyz"] for best in found.values())


def test_convergence_warning_is_one_plain_line(run):
    status, _, err = run(*ALIGN, "--time-limit", 1e-6, "--refine", 0)
    assert status == 0
    assert err.startswith("gwfast: warning: ")
    assert err.count("\n") == 2 and FEW in err


BAD = {
    "no such file": (["none.vec", "b.vec"], "File 'none.vec' does not exist"),
    "a folder": ([".", "b.vec"], "is a directory"),
    "empty": (["empty", "b.vec"], "empty: expected word vectors, got 0 bytes"),
    "bad line": (["bad.vec", "b.vec"], "bad.vec:3: expected a word and 2 numbers"),
    "zero vector": (
        ["zero.vec", "b.vec"],
        "with a direction, got 0 for 'b' (1 of 2 rows); --encoding-errors skip",
    ),
    "counts in place of vectors": (
        ["a.counts", "b.vec"],
        "a.counts: vectors have one column: is this an embedding file?",
    ),
    "bad dictionary": (["a.vec", "b.vec", "--dictionary", "bad.vec"], "bad.vec:2:"),
    "no pair": (["a.vec", "b.vec", "--dictionary", "other.txt"], "and no such pair"),
    "epsilon": (["a.vec", "b.vec", "--epsilon", "0"], "number above 0, a perce"),
    "init": (["a.vec", "b.vec", "--init", "nonsense"], "init"),
    "normalize": (
        ["a.vec", "b.vec", "--normalize", "unit,fold"],
        "expected unit and center, with commas between, or none, and at the end perhaps one of",
    ),
    "n words": (["a.vec", "b.vec", "--n-words", "0"], "Invalid value for '--n-words'"),
    "memory": (["a.vec", "b.vec", "--memory-limit", "9kB"], "limit is 9e-06 GB"),
    "memory unit": (["a.vec", "b.vec", "--memory-limit", "2 x"], "such as '2.4GB'"),
    "tol": (["a.vec", "b.vec", "--tol", "0"], "Invalid value for '--tol'"),
    "no counts": (["a.vec", "b.vec", "--marginals", "counts"], "go together"),
    "counts": (["a.vec", "b.vec", "--source-counts", "a.counts"], "go together"),
    "a word without count": (
        ["a.vec", "b.vec", "--marginals", "counts", "--source-counts", "b.counts",
         "--target-counts", "b.counts"],
        "b.counts: counts must cover every word: none for '[bold]'",
    ),
    "seeds and init": (
        ["a.vec", "b.vec", "--seeds", "pairs.txt", "--init", "product"],
        "do not go together",
    ),
    "no seed": (
        ["a.vec", "b.vec", "--seeds", "other.txt"],
        "--seeds must have a pair of the first 60 and 60",
    ),
    "no word alike": (
        ["a.vec", "b.vec", "--init", "identical"],
        "--init identical must have a pair of the first",
    ),
    "output is a file": (["a.vec", "b.vec", "--output", "a.vec"], "got the file a.vec"),
    "output's parent": (["a.vec", "b.vec", "--output", "x/y"], "in an existing folder"),
    "output not empty": (["a.vec", "b.vec", "--output", "."], "must be empty"),
    "option": (["a.vec", "b.vec", "--nonsense"], "No such option"),
    "arguments": (["a.vec"], "Missing argument 'TGT'"),
}  # fmt: skip


@pytest.mark.parametrize("arguments, message", BAD.values(), ids=BAD)
def test_bad_input(run, files, arguments, message):
    """One line, status 2, nothing written."""
    (files / "empty").touch()
    (files / "bad.vec").write_text("2 2\na 1 2\nb 1\n")
    (files / "zero.vec").write_text("2 2\na 1 2\nb 0 0\n")
    (files / "other.txt").write_text("uno eins\n")
    before = tree(files)
    if "--output" not in arguments:
        arguments = [*arguments, "--output", "out"]
    status, out, err = run("align", *arguments, "--quiet")
    assert status == 2
    assert out == ""
    assert err.startswith("gwfast: error: ")
    assert message in err
    assert err.count("\n") == 1
    assert tree(files) == before


FAILURES = {
    "gwfast: interrupted": KeyboardInterrupt(),
    "gwfast: error: x must be 2-D": ValueError("x must be\n2-D"),
    "gwfast: error: 9 GB": MemoryError("9 GB"),
    "gwfast: error: f: No space left": OSError(28, "No space left", "f"),
}


@pytest.mark.slow
@pairwise(
    message=FAILURES, where=["gwfast.align", "gwfast.plot.plot_dynamics"], existing=[False, True]
)
def test_nothing_is_left_after_a_failure(run, files, monkeypatch, message, where, existing):
    """Whether the solve fails or the last file cannot be written."""

    def fail(*args, **kwargs):
        raise FAILURES[message]

    monkeypatch.setattr(where, fail)
    if existing:
        (files / "out").mkdir()
    before = tree(files)
    status, out, err = run(*ALIGN, "--output", "out")
    assert status == (130 if "interrupted" in message else 2)
    warning = f"gwfast: warning: {FEW}"  # of a solve that was done
    assert out == "" and err.replace(warning, "").strip() == message
    assert tree(files) == before


@pytest.mark.skipif(sys.platform != "linux", reason="asks for a folder of Linux")
def test_a_folder_that_cannot_be_made_is_named(run):
    status, out, err = run(*ALIGN, "--output", "/proc/x")
    assert (status, out) == (2, "")
    assert err == "gwfast: error: /proc/x: No such file or directory\n"


def test_a_full_disk_names_the_folder(run, files):
    """A temporary one was written to."""
    before = tree(files)
    with full_disk(1000):
        status, out, err = run(*ALIGN, "--output", "out")
    assert (status, out) == (2, "")
    assert err.splitlines()[-1] == "gwfast: error: out: File too large"
    assert tree(files) == before


def test_closed_output_is_told(run, monkeypatch, capsys):
    """Whatever is asked for: results were lost, and the exit status was 0."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        assert main(["config", "--json"]) == 1
    assert capsys.readouterr().err == "gwfast: error: standard output is closed\n"


@pytest.mark.slow
def test_demo(run):
    """The whole way on real words; 0.62, 0.77 and 0.78 when this was written."""
    status, out, _ = run("demo", "--quiet", "--n-words", 1200)
    assert status == 0
    assert "2,500 words, 200 columns" in out
    assert "1,200 x 1,200 words" in out
    assert "396 of 396" in out
    table = out[out.index("translations") : out.index("✓ the list has it")]
    assert sum("✓" in line or "✗" in line for line in table.splitlines()) == 20
    shares = [float(share) for share in re.findall(r"\t([\d.]+)\t[\d.]+ to", out)]
    assert len(shares) == 3
    assert all(np.array(shares) >= [0.55, 0.6, 0.6])


def test_a_checkpoint_is_written_and_gone_on_from(run, files):
    given = "align", "a.vec", "b.vec", "--checkpoint", "kept", "--epsilon", "2%"
    status, out, err = run(*given)
    assert status == 0, err
    assert (files / "kept").stat().st_size > 0 and "going on" not in err
    status, again, err = run(*given)
    assert status == 0, err
    assert "going on from kept" in err
    # The search runs again, and counts the descent that went on as one more start.
    varies = re.compile(r"[\d.]+ s\b|best of \d+")
    assert varies.sub("", again) == varies.sub("", out)
    status, out, err = run(*given[:-1], "3%")
    assert (status, out) == (2, "")
    assert "error: kept: the checkpoint of another solve" in err


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_killed_command_ends_where_another_does(run, files):
    given = *ALIGN, "--json", "--checkpoint"
    process, before = ["-m", "gwfast", *given, "kept", "--output", "out"], tree(files)
    status = kill_once_written(files / "kept", process, cwd=files)
    assert status == -signal.SIGKILL
    assert {*tree(files)} - {*before} == {"kept"}
    went_on, plain = (json.loads(run(*given, name)[1]) for name in ("kept", "other"))
    for found in (went_on, plain):
        del found["gw"]["seconds"]
    for part in ("gw", "translations", "mutual_pairs"):
        assert went_on[part] == plain[part]


@pytest.mark.slow
@pytest.mark.process
def test_piped_output_is_plain_and_whole(files):
    long = files / ("folder-of-" + "x" * 90)
    long.mkdir()
    (files / "a.vec").rename(long / "a.vec")
    done = command(
        "align", str(long / "a.vec"), "b.vec", "--dictionary", "pairs.txt",
        "--output", "out", cwd=files, PYTHONIOENCODING="ascii", PYTHONUTF8="0",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    for stream in (done.stdout, done.stderr):
        assert b"\x1b" not in stream
        assert b"\r" not in stream
    # An encoding that lacks the signs of what is right has others.
    lines = done.stdout.decode("ascii").splitlines()
    assert "+ the list has it, - it does not" in lines
    assert lines[0] == f"source\t{long / 'a.vec'}: 60 words, 6 columns"
    assert not [line for line in lines if line != line.rstrip() or "  " in line]
    assert not any("..." in line for line in lines)
    assert tree(files / "out") == FILES


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_terminal_of_80_columns(files):
    """The bar and the tables keep to the width; what is drawn last says it all."""
    arguments = "align", "a.vec", "b.vec", "--dictionary", "pairs.txt"
    status, text, _ = on_terminal(*arguments, cwd=files)
    assert status == 0
    assert "\x1b[" in text
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert "gw_cost" in plain
    for line in re.split(r"[\r\n]+", plain):
        assert len(line) <= 80, line


def test_help_and_version(run):
    for arguments in ([], ["--help"], ["-h"]):
        status, out, _ = run(*arguments)
        assert status == 0
        assert "align" in out and "demo" in out
    status, out, _ = run("--version")
    assert (status, out) == (0, f"gwfast, version {gwfast.__version__}\n")
    for name in ("align", "demo"):
        status, out, _ = run(name, "--help")
        assert status == 0
        assert max(map(len, out.splitlines())) <= 80


def test_config(run):
    status, out, _ = run("config")
    assert status == 0 and gwfast.__version__ in out
    status, out, _ = run("config", "--json")
    assert status == 0 and json.loads(out)["gwfast"] == gwfast.__version__


EXTRA = ["click", "rich", "matplotlib", "jinja2", "joblib"]


@pytest.mark.parametrize("names", [EXTRA, EXTRA[-1:]], ids=len)
def test_without_the_extra(monkeypatch, capsys, names):
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)
    assert main(["demo"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        f'gwfast: error: the command line needs {", ".join(names)}: pip install "gwfast-ot[cli]"\n'
    )


@pytest.mark.process
def test_words_need_no_extra():
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({EXTRA}))\n"
        "import gwfast.words\n"
        "assert len(gwfast.words.load_sample()) == 3\n"
    )
    run_python(code)


def test_known_pairs_and_words_spelt_alike_are_a_start(run, files):
    lines = (files / "pairs.txt").read_text().splitlines(keepends=True)
    (files / "few.txt").write_text("".join(lines[3:9]) + "nowhere t1\n")
    arguments = "align", "a.vec", "b.vec", "--dictionary", "pairs.txt"
    status, out, err = run(*arguments, "--seeds", "few.txt")
    assert status == 0 and "start 1 of" not in err and "6 seeds" in err
    left = "gwfast: warning: --seeds: 6 of 7 pairs are of the first 60 and 60 words"
    assert left in err
    assert re.search(r"CSLS\t1\.000", out)
    y = read_embeddings(files / "b.vec")
    targets = [f"s{word[1:]}" if int(word[1:]) < 20 else word for word in y.words]
    write_vectors(files / "c.vec", targets, y.vectors)
    status, out, err = run("align", "a.vec", "c.vec", "--init", "identical")
    assert status == 0 and "17 seeds" in err
