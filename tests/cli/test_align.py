"""The command line: what it prints and writes, and how it fails."""

import json
import os
import re
import signal
import struct
import subprocess
import sys

import numpy as np
import pytest
from helpers.cli import N
from helpers.files import tree
from helpers.marks import mostly_slow
from helpers.processes import environment, full_disk, kill_once_written, run_python
from helpers.vector_files import write_vectors

import gwfast
from gwfast.__main__ import main
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
    assert "P@1" not in out
    assert err.splitlines()[-1].startswith("nothing was written: --output DIR")
    assert run("align", "a.vec", "b.vec", "--quiet")[2] == ""
    assert err.startswith("start 1 of ") and "start 2 of" not in err
    assert "solving from" in err and ": gw_cost " in err
    assert tree(files) == before


def test_markup_in_words_is_literal(run):
    _, out, _ = run("align", "a.vec", "b.vec", "--max-vocab", 20)
    assert "[bold]" in out
    assert ":smile:" in out


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
        "align", "a.vec", "b.vec", "--dictionary", "pairs.txt", "--output", "result",
        "--n-words", 50, "--epsilon", "0.01", "--threads", 1, "--quiet",
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
    assert len(result["history"]) == result["gw"]["n_outer"]
    assert result["history"][-1]["iteration"] == result["gw"]["n_outer"]
    for method in ("coupling", "nn", "csls"):
        score = result["accuracy"][method]
        assert f"{score['P@1']:.3f}" in out
        assert 0 <= score["P@1"] <= score["P@5"] <= score["P@10"] <= 1
    assert result["accuracy"]["csls"]["queries"] == 60
    assert result["accuracy"]["coupling"]["queries"] < 50  # both words took part

    header, *lines = (folder / "translations.tsv").read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    assert header.split("\t") == [
        "source", "rank", "csls", "csls_score", "coupling", "coupling_share", "mutual",
    ]  # fmt: skip
    assert len(rows) == 60 * 10
    words = read_embeddings(files / "a.vec").words
    assert [row[0] for row in rows[::10]] == list(words)
    assert [row[1] for row in rows[:10]] == [str(rank) for rank in range(1, 11)]
    scores = np.array([float(row[3]) for row in rows]).reshape(60, 10)
    assert (np.diff(scores) <= 0).all()
    # The figures can be had from the file: a hit is s3 -> t3.
    truth = dict(
        line.split() for line in (files / "pairs.txt").read_text().splitlines()
    )
    hits = np.mean([truth[row[0]] == row[2] for row in rows[::10]])
    assert hits == pytest.approx(result["accuracy"]["csls"]["P@1"])
    assert all(row[4:6] == ["", ""] for row in rows[50 * 10 :])
    assert all(row[4].startswith("t") for row in rows[: 50 * 10])
    assert (folder / "dynamics.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_mapping_file_is_enough_to_map(run, files):
    """By hand, from what is in the file: the words land on their translations."""
    assert run("align", "a.vec", "b.vec", "--output", "result", "--quiet")[0] == 0
    with np.load(files / "result" / "mapping.npz") as saved:
        steps = saved["normalize"].tolist()
        sides = []
        for side, name in (("source", "a.vec"), ("target", "b.vec")):
            x = read_embeddings(files / name).vectors
            means = iter(saved[f"{side}_means"])
            for step in steps:
                if step == "center":
                    x = x - next(means)
                else:
                    x = x / np.linalg.norm(x, axis=1, keepdims=True)
            sides.append(x)
        nearest = (sides[0] @ saved["mapping"] @ sides[1].T).argmax(axis=1)
    targets = read_embeddings(files / "b.vec").words
    assert [targets[row] for row in nearest] == [f"t{i}" for i in range(N)]


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.slow
def test_existing_output_folder(run, files):
    folder = files / "result"
    arguments = ("align", "a.vec", "b.vec", "--output", "result", "--quiet")
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


@pytest.mark.slow
@pytest.mark.parametrize("marginals", ["uniform", "zipf", "counts"])
def test_marginals(run, marginals):
    files = ("--source-counts", "a.counts", "--target-counts", "b.counts")
    status, _, err = run(
        "align", "a.vec", "b.vec", "--marginals", marginals, "--n-words", 40,
        *(files if marginals == "counts" else ()),
    )  # fmt: skip
    assert status == 0, err


@pytest.mark.slow
@pytest.mark.parametrize("tier", mostly_slow(["sparse", "tiled"], fast=["sparse"]))
def test_tiers(run, files, tier):
    arguments = "align", "a.vec", "b.vec", "--n-words", 40, "--output", tier
    status, _, err = run(*arguments, "--tier", tier, "--memory-limit", "1GB")
    assert status == 0, err
    settings = json.loads((files / tier / "result.json").read_text())["settings"]
    assert (settings["tier"], settings["memory_limit"]) == (tier, "1GB")


def test_a_time_limit_is_told_and_what_there_is_is_written(run, files):
    arguments = "align", "a.vec", "b.vec", "--output", "soon", "--time-limit"
    status, _, err = run(*arguments, "1e-6")
    assert status == 0, err
    found = json.loads((files / "soon" / "result.json").read_text())
    assert found["settings"]["time_limit"] == 1e-6
    assert found["gw"]["status"] == "time_limit"
    assert "time_limit" in err
    status, _, err = run(*arguments, "0", "--force")
    assert status == 2
    assert "time-limit" in err


def test_few_words(run, files):
    """Fewer words than the ten translations, and more than one dimension for each."""
    write_vectors(files / "c.vec", ["x", "y", "z"], np.eye(3) + 0.1)
    status, _, err = run("align", "c.vec", "c.vec", "--output", "few")
    assert status == 0, err
    lines = (files / "few" / "translations.tsv").read_text().splitlines()
    assert len(lines) == 1 + 9


def test_convergence_warning_is_one_plain_line(run):
    status, _, err = run("align", "a.vec", "b.vec", "--max-outer", 1, "--quiet")
    assert status == 0
    assert err.startswith("gwfast: warning: ")
    assert err.count("\n") == 1


BAD = {
    "no such file": (["none.vec", "b.vec"], "File 'none.vec' does not exist"),
    "a folder": ([".", "b.vec"], "is a directory"),
    "empty": (["empty", "b.vec"], "empty: expected word vectors, got 0 bytes"),
    "bad line": (["bad.vec", "b.vec"], "bad.vec:3: expected a word and 2 numbers"),
    "zero vector": (["zero.vec", "b.vec"], "with a direction, got 0 for 'b'"),
    "no dictionary": (["a.vec", "b.vec", "--dictionary", "none"], "does not exist"),
    "bad dictionary": (["a.vec", "b.vec", "--dictionary", "bad.vec"], "bad.vec:2:"),
    "no pair": (["a.vec", "b.vec", "--dictionary", "other.txt"], "and no such pair"),
    "epsilon 0": (["a.vec", "b.vec", "--epsilon", "0"], "number above 0 or a perce"),
    "epsilon nan": (["a.vec", "b.vec", "--epsilon", "nan"], "percentage, got 'nan'"),
    "epsilon word": (["a.vec", "b.vec", "--epsilon", "x"], "percentage, got 'x'"),
    "epsilon 0%": (["a.vec", "b.vec", "--epsilon", "0%"], "percentage, got '0%'"),
    "init": (["a.vec", "b.vec", "--init", "nonsense"], "init"),
    "normalize": (["a.vec", "b.vec", "--normalize", "unit,fold"], "normalize"),
    "n words": (["a.vec", "b.vec", "--n-words", "0"], "Invalid value for '--n-words'"),
    "memory": (["a.vec", "b.vec", "--memory-limit", "9kB"], "limit is 9e-06 GB"),
    "memory unit": (["a.vec", "b.vec", "--memory-limit", "2 x"], "such as '2.4GB'"),
    "tier": (["a.vec", "b.vec", "--tier", "flat"], "Invalid value for '--tier'"),
    "tol": (["a.vec", "b.vec", "--tol", "0"], "Invalid value for '--tol'"),
    "no counts": (["a.vec", "b.vec", "--marginals", "counts"], "go together"),
    "counts": (["a.vec", "b.vec", "--source-counts", "a.counts"], "go together"),
    "a word without count": (
        ["a.vec", "b.vec", "--marginals", "counts", "--source-counts", "b.counts",
         "--target-counts", "b.counts"],
        "b.counts: counts must cover every word: none for '[bold]'",
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
    status, out, err = run("align", *arguments)
    assert status == 2
    assert out == ""
    assert err.startswith("gwfast: error: ")
    assert message in err
    assert err.count("\n") == 1
    assert tree(files) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "error, status, message",
    [
        (KeyboardInterrupt(), 130, "gwfast: interrupted"),
        (ValueError("x must be\n2-D"), 2, "gwfast: error: x must be 2-D"),
        (MemoryError("9 GB"), 2, "gwfast: error: 9 GB"),
        (OSError(28, "No space left", "f"), 2, "gwfast: error: f: No space left"),
    ],
)
@pytest.mark.parametrize(
    "where",
    ["gwfast.align", "gwfast.plot.plot_dynamics"],
)
@pytest.mark.parametrize("existing", [False, True])
def test_nothing_is_left_after_a_failure(
    run, files, monkeypatch, error, status, message, where, existing
):
    """Whether the solve fails or the last file cannot be written."""

    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(where, fail)
    if existing:
        (files / "out").mkdir()
    before = tree(files)
    code, out, err = run("align", "a.vec", "b.vec", "--output", "out", "--quiet")
    assert code == status
    assert out == ""
    assert err.strip() == message
    assert tree(files) == before


@pytest.mark.skipif(sys.platform != "linux", reason="asks for a folder of Linux")
def test_a_folder_that_cannot_be_made_is_named(run):
    status, out, err = run("align", "a.vec", "b.vec", "--output", "/proc/x", "--quiet")
    assert (status, out) == (2, "")
    assert err == "gwfast: error: /proc/x: No such file or directory\n"


def test_a_full_disk_names_the_folder(run, files):
    """A temporary one was written to."""
    before = tree(files)
    with full_disk(1000):
        given = "align", "a.vec", "b.vec", "--output", "out", "--quiet"
        status, out, err = run(*given)
    assert (status, out) == (2, "")
    assert err == "gwfast: error: out: File too large\n"
    assert tree(files) == before


def test_closed_output_is_told(run, monkeypatch, capsys):
    """Whatever is asked for: results were lost, and the exit status was 0."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        assert main(["config", "--json"]) == 1
    assert capsys.readouterr().err == "gwfast: error: standard output is closed\n"


@pytest.mark.slow
def test_demo(run, files):
    """The whole way on real words; 0.69, 0.73 and 0.75 when this was written."""
    status, out, _ = run("demo", "--output", "demo", "--quiet")
    assert status == 0
    assert "2,500 words, 200 columns" in out
    assert "2,000 x 2,000 words" in out
    assert "396 of 396" in out
    table = out[out.index("translations") : out.index("✓ the list has it")]
    assert sum("✓" in line or "✗" in line for line in table.splitlines()) == 20
    accuracy = json.loads((files / "demo" / "result.json").read_text())["accuracy"]
    assert accuracy["coupling"]["P@1"] >= 0.55
    assert accuracy["nn"]["P@1"] >= 0.6
    assert accuracy["csls"]["P@1"] >= 0.6


def test_a_checkpoint_is_written_and_gone_on_from(run, files):
    given = "align", "a.vec", "b.vec", "--checkpoint", "kept", "--epsilon", "2%"
    status, out, err = run(*given)
    assert status == 0, err
    assert (files / "kept").stat().st_size > 0 and "going on" not in err
    status, again, err = run(*given)
    assert status == 0, err
    assert "going on from kept" in err
    seconds = re.compile(r"[\d.]+ s\b")
    assert seconds.sub("", again) == seconds.sub("", out)
    status, out, err = run(*given[:-1], "3%")
    assert (status, out) == (2, "")
    assert "error: kept: the checkpoint of another solve, whose epsilon differ" in err


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_killed_command_ends_where_another_does(files):
    options = "--output", "out", "--quiet", "--refine", "0"
    align = "-m", "gwfast", "align", "a.vec", "b.vec", "--checkpoint", "kept"
    status = kill_once_written(files / "kept", [*align, *options], cwd=files)
    assert status == -signal.SIGKILL and not (files / "out").exists()
    for folder, kept in (("out", "kept"), ("plain", "other")):
        arguments = [*align[2:-1], kept, "--output", folder, *options[2:]]
        assert command(*arguments, cwd=files).returncode == 0
    made, plain = (
        json.loads((files / folder / "result.json").read_text())
        for folder in ("out", "plain")
    )
    del made["gw"]["seconds"], plain["gw"]["seconds"]
    assert made["gw"] == plain["gw"]
    with np.load(files / "out" / "mapping.npz") as one:
        with np.load(files / "plain" / "mapping.npz") as other:
            np.testing.assert_array_equal(one["mapping"], other["mapping"])


@pytest.mark.slow
@pytest.mark.process
def test_piped_output_is_plain_and_whole(files):
    long = files / ("folder-of-" + "x" * 90)
    long.mkdir()
    (files / "a.vec").rename(long / "a.vec")
    done = command(
        "align", str(long / "a.vec"), "b.vec", "--dictionary", "pairs.txt",
        "--output", "out", cwd=files,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    for stream in (done.stdout, done.stderr):
        assert b"\x1b" not in stream
        assert b"\r" not in stream
    lines = done.stdout.decode("utf-8").splitlines()
    assert lines[0] == f"source\t{long / 'a.vec'}: 60 words, 6 columns"
    assert not [line for line in lines if line != line.rstrip() or "  " in line]
    assert not any("…" in line for line in lines)
    assert tree(files / "out") == FILES


@pytest.mark.slow
@pytest.mark.process
def test_encoding_that_lacks_the_words(files):
    done = command(
        "demo", "--n-words", "60", "--max-outer", "2",
        cwd=files, PYTHONIOENCODING="ascii", PYTHONUTF8="0",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert b"coupling" in done.stdout
    done.stdout.decode("ascii")


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_terminal_of_80_columns(files):
    """The bar and the tables keep to the width; what is drawn last says it all."""
    import fcntl
    import pty
    import termios

    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "gwfast", "align", "a.vec", "b.vec",
         "--dictionary", "pairs.txt"],
        cwd=files,
        env=environment(TERM="xterm-256color"),
        stdin=follower, stdout=follower, stderr=follower,
    )  # fmt: skip
    os.close(follower)
    received = b""
    while True:
        try:
            block = os.read(leader, 4096)
        except OSError:  # the other end is closed
            break
        if not block:
            break
        received += block
    os.close(leader)
    assert process.wait(timeout=60) == 0
    text = received.decode("utf-8")
    assert "\x1b[" in text
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert "gw_cost" in plain
    for line in re.split(r"[\r\n]+", plain):
        assert len(line) <= 80, line


def test_help_and_version(run):
    for arguments in ([], ["--help"], ["-h"]):
        status, out, _ = run(*arguments)
        assert status == 0
        assert "align" in out
        assert "demo" in out
    status, out, _ = run("--version")
    assert (status, out) == (0, f"gwfast, version {gwfast.__version__}\n")
    for name in ("align", "demo"):
        status, out, _ = run(name, "--help")
        assert status == 0
        assert max(map(len, out.splitlines())) <= 80


def test_unknown_command(run):
    status, _, err = run("aling")
    assert status == 2
    assert err.startswith("gwfast: error: No such command 'aling'")


def test_config(run):
    status, out, _ = run("config")
    assert status == 0
    assert out


EXTRA = ["click", "rich", "matplotlib", "jinja2", "joblib"]


@pytest.mark.parametrize("name", EXTRA)
def test_without_the_extra(monkeypatch, capsys, name):
    monkeypatch.setitem(sys.modules, name, None)
    assert main(["demo"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        f'gwfast: error: the command line needs {name}: pip install "gwfast-ot[cli]"\n'
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


@pytest.mark.slow
@pytest.mark.process
def test_a_killed_run_leaves_nothing_for_ever(run, files):
    """Its folder stays until the next run that writes there."""
    code = (
        "import os, signal, sys, gwfast.cli.outputs as outputs\n"
        "outputs.write = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "import gwfast.cli.report as report\n"
        "report.write = outputs.write\n"
        "from gwfast.__main__ import main\n"
        "main(['align', 'a.vec', 'b.vec', '--output', 'out', '--quiet'])\n"
    )
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment(), cwd=files, check=False
        )
        assert done.returncode == -signal.SIGKILL
        assert len(list(files.glob(".gwfast-*"))) == 1
    assert run("align", "a.vec", "b.vec", "--output", "out", "--quiet")[0] == 0
    assert not list(files.glob(".gwfast-*"))


def test_known_pairs_and_words_spelt_alike_are_a_start(run, files):
    lines = (files / "pairs.txt").read_text().splitlines(keepends=True)
    (files / "few.txt").write_text("".join(lines[3:9]) + "nowhere t1\n")
    arguments = "align", "a.vec", "b.vec", "--dictionary", "pairs.txt"
    status, out, err = run(*arguments, "--seeds", "few.txt")
    assert status == 0 and "start 1 of" not in err and "6 seeds" in err
    left = "gwfast: warning: --seeds: 6 of 7 pairs are of the first 60 and 60 words"
    assert left in err
    assert re.search(r"CSLS\t1\.000", out)
    _, y = (read_embeddings(files / name) for name in ("a.vec", "b.vec"))
    targets = [f"s{word[1:]}" if int(word[1:]) < 20 else word for word in y.words]
    write_vectors(files / "c.vec", targets, y.vectors)
    status, out, err = run("align", "a.vec", "c.vec", "--init", "identical")
    assert status == 0 and "17 seeds" in err


@pytest.mark.parametrize(
    "options, message",
    [
        (["--seeds", "pairs.txt", "--init", "product"], "do not go together"),
        (["--seeds", "none.txt"], "'none.txt' does not exist"),
        (["--seeds", "other.txt"], "--seeds must have a pair of the first 60 and 60"),
        (["--init", "identical"], "--init identical must have a pair of the first"),
    ],
)
def test_starts_that_are_none(run, files, options, message):
    (files / "other.txt").write_text("x y\n")
    before = tree(files)
    status, out, err = run("align", "a.vec", "b.vec", "--output", "o", *options)
    assert (status, out) == (2, "") and message in err.splitlines()[-1]
    assert tree(files) == before
