"""`gwfast align` and `gwfast demo`: tables, options, progress, warnings, failures."""

import json
import re
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.cli import ALIGN, FEW, N
from helpers.files import tree
from helpers.marks import pairwise
from helpers.processes import command, full_disk, kill_once_written, on_terminal
from helpers.vector_files import write_vectors

import gwfast
from gwfast.results.status import Ending
from gwfast.words import read_embeddings

FILES = [
    "dictionary.txt", "dynamics.png", "mapping.npz", "report.html", "result.json",
    "translations.tsv",
]  # fmt: skip
FEW_WARNING = f"gwfast: warning: {FEW}\n"


def test_without_output_nothing_is_written(run, files):
    before = tree(files)
    status, out, err = run("align", "a.vec", "b.vec")
    assert status == 0
    lines = out.splitlines()
    assert lines[0] == "source\ta.vec: 60 words, 6 columns"
    confidence = r"status\tconverged, after \d+ outer iterations, confidence \d\.\d\d"
    for fact in (r"transport\t60 x 60 words, .*", confidence, r"gw_cost\t.*"):
        assert any(re.fullmatch(fact, line) for line in lines), fact
    table = lines[lines.index("translations") + 2 :]
    assert [len(line.split("\t")) for line in table] == [4] * 20
    assert sum(line.startswith("s") for line in table) >= 17
    # Words that terminal markup would swallow are words like any other.
    assert table[0].startswith("[bold]\t")
    assert ":smile:" in run("align", "a.vec", "b.vec", "--max-vocab", 20)[1]
    assert "P@1" not in out
    assert err.splitlines()[-1].startswith("nothing was written: --output DIR")
    assert run("align", "a.vec", "b.vec", "--quiet")[2] == FEW_WARNING
    assert err.startswith("start 1: profile") and "start 2" not in err
    assert "solving from" in err and ": gw_cost " in err
    assert tree(files) == before


def test_output_is_a_folder(run, files):
    """With a dictionary, whose figures are in all results."""
    options = "--dictionary", "pairs.txt", "--output", "out"
    status, out, err = run(*ALIGN, *options)
    assert (status, err) == (0, FEW_WARNING)
    lines = out.splitlines()
    for method in ("coupling", "nearest neighbor", "CSLS"):  # Wilson: 60 hits of 60
        figures = ["1.000", "0.940 to 1.000", "1.000", "1.000", "60 of 60"]
        assert "\t".join([method, *figures]) in lines
    assert "convention gwfast: the vocabularies cover 100.0% of the list's words" in lines
    assert "start\tprofile: one start, not searched" in lines
    folder = files / "out"
    assert tree(folder) == FILES
    assert not [name for name in tree(files) if ".gwfast" in name]
    (files / "plain").mkdir()
    assert folder.stat().st_mode == (files / "plain").stat().st_mode
    again = run(*ALIGN, "--reverse-dictionary", "turned.txt")[1]
    assert again.splitlines()[-6:] == lines[-6:]
    # An existing folder, and a mistake in it.
    (folder / "notes.txt").write_text("mine")
    (folder / "result.json").write_text("old")
    status, out, err = run(*ALIGN, *options)
    assert (status, out) == (2, "")
    assert err.startswith("gwfast: error: --output must be empty without --force")
    status, out, err = run(*ALIGN, *options, "--force", "--json", "--vectors", "text")
    assert (status, err) == (0, FEW_WARNING)
    assert json.loads(out) == json.loads((folder / "result.json").read_text("utf-8"))
    assert tree(folder) == sorted([*FILES, "notes.txt", "source.vec", "target.vec"])
    # A later run removes the vectors of an earlier run.
    assert run(*ALIGN, *options, "--force")[0] == 0
    assert tree(folder) == sorted([*FILES, "notes.txt"])
    # Without a result, nothing in a folder is a result of ours.
    (files / "plain" / "target.vec").write_text("mine")
    assert run(*ALIGN, "--output", "plain", "--force")[0] == 0
    assert (files / "plain" / "target.vec").read_text() == "mine"


COUNTS = "--source-counts", "a.counts", "--target-counts", "b.counts"


@pytest.mark.parametrize(
    "options",
    [
        ("--marginals", "zipf"),
        ("--marginals", "counts", *COUNTS),
        ("--init", "product", "--tier", "tiled", "--memory-limit", "1GB"),
        ("--refine", 0, "--seed", 3, "--threads", 1, "--tol", 1e-4),
        ("--lower", True, "--max-vocab", 50, "--encoding", "latin-1", "--epsilon", 0.02),
    ],
)
def test_options_reach_the_solver_and_the_record(run, files, options):
    given = [str(option) for option in options if option is not True]
    status, out, err = run(*ALIGN, "--n-words", 40, "--json", *given)
    assert status == 0, err
    found = json.loads(out)
    assert found["folder"] == str(files) and found["plan_shape"] == [40, 40]
    for name, value in zip(options[::2], options[1::2], strict=True):
        assert found["settings"][name[2:].replace("-", "_")] == value
    assert bool(found["refinement"]) == ("--refine" not in options)


def test_a_time_limit_ends_with_the_best_so_far(run, files):
    options = "--output", "soon", "--time-limit", "1e-6", "--json"
    status, out, err = run("align", "a.vec", "b.vec", "--quiet", *options)
    assert status == 0, err
    found = json.loads(out)
    assert found["settings"]["time_limit"] == 1e-6
    assert found["gw"]["status"] == "time_limit"
    remedy = "try a larger --time-limit, a larger --tol, or a smaller --n-words"
    assert found["gw"]["advice"] == remedy
    assert found["warnings"][0].endswith(f"(at most 1.0e-05): {remedy}")
    assert remedy in (files / "soon" / "report.html").read_text("utf-8")
    assert err == "".join(f"gwfast: warning: {text}\n" for text in found["warnings"])


def test_few_words(run, files):
    """Fewer words than the ten translations, and more than one dimension for each."""
    write_vectors(files / "c.vec", ["x", "y", "z"], np.eye(3) + 0.1)
    status, out, err = run("align", "c.vec", "c.vec", "--json")
    assert status == 0, err
    found = json.loads(out)["translations"]
    assert [*found] == [*"xyz"]
    assert all(sorted(best) == [*"xyz"] for best in found.values())


# --- Dictionaries and starts ------------------------------------------------------------


def test_conventions_score_by_their_rules(run, files):
    """MUSE puts words in lower case, and the paper takes the first translation of a line."""
    upper = (files / "pairs.txt").read_text().upper()
    (files / "upper.txt").write_text(upper)
    words = read_embeddings(files / "a.vec").words
    lines = [f"{word} t{(i + 1) % N} t{i}\n" for i, word in enumerate(words)]
    (files / "pairs.lex").write_text("".join(lines))
    for name, convention, right in (
        ("upper.txt", "muse", 1.0),
        ("pairs.lex", "gwfast", 1.0),
        ("pairs.lex", "paper", 0.0),
    ):
        arguments = *ALIGN, "--dictionary", name, "--convention", convention, "--methods", "csls"
        found = json.loads(run(*arguments, "--json")[1])["accuracy"]
        assert [*found] == ["csls"] and found["csls"]["queries"] == N
        assert found["csls"]["P@1"] == pytest.approx(right, abs=0.1)
    out = run(*ALIGN, "--dictionary", "upper.txt", "--convention", "muse")[1]
    assert "convention muse: the vocabularies cover 100.0% of the list's pairs" in out


def test_dictionaries_and_seeds_the_wrong_way_round_are_told_of(run, files):
    lines = (files / "turned.txt").read_text()
    (files / "turned.txt").write_text(lines + "s5 t5\n")
    for option in ("--dictionary", "--seeds"):
        status, _, err = run("align", "a.vec", "b.vec", "--quiet", option, "turned.txt")
        assert status == 0 and "more pairs fit the other way round" in err
    assert "; --reverse-dictionary turns it" in run(*ALIGN, "--dictionary", "turned.txt")[2]


def test_known_pairs_and_words_spelt_alike_are_a_start(run, files):
    lines = (files / "pairs.txt").read_text().splitlines(keepends=True)
    (files / "few.txt").write_text("".join(lines[3:9]) + "nowhere t1\n")
    arguments = "align", "a.vec", "b.vec", "--dictionary", "pairs.txt"
    status, out, err = run(*arguments, "--seeds", "few.txt")
    assert status == 0 and "start 1 of" not in err and "6 seeds" in err
    left = "gwfast: warning: --seeds: 6 of 7 pairs are of the first 60 and 60 words"
    assert left in err
    assert re.search(r"CSLS\t1\.000", out)
    assert "start\tseeds: one start, not searched\n" in out
    y = read_embeddings(files / "b.vec")
    targets = [f"s{word[1:]}" if int(word[1:]) < 20 else word for word in y.words]
    write_vectors(files / "c.vec", targets, y.vectors)
    status, out, err = run("align", "a.vec", "c.vec", "--init", "identical")
    assert status == 0 and "17 seeds" in err


# --- Words that are hard to read --------------------------------------------------------


def test_words_in_lower_case_and_words_that_are_not_utf8(run, files):
    text = (files / "a.vec").read_bytes()
    (files / "bad.vec").write_bytes(text.replace(b"s5 ", b"s\xff ").replace(b"s6 ", b"S7 "))
    arguments = "align", "bad.vec", "b.vec", "--quiet"
    status, _, err = run(*arguments)
    assert status == 2 and "bad.vec:7" in err and "UTF-8" in err
    for options, described in (
        (("--encoding-errors", "skip"), f"{N - 1} words, 6 columns, 1 dropped (not UTF-8)"),
        (("--encoding-errors", "replace"), f"{N} words, 6 columns, 1 with replaced bytes"),
        (("--encoding", "latin-1"), f"{N} words, 6 columns"),
        (("--encoding", "latin-1", "--lower"), f"{N - 1} words, 6 columns, 1 dropped (duplicates)"),
    ):
        status, out, _ = run(*arguments, *options)
        assert status == 0 and out.startswith(f"source\tbad.vec: {described}\n")


def test_words_do_not_command_the_terminal(run, files, monkeypatch):
    x = read_embeddings(files / "a.vec").vectors
    signs = "\x1b[31m", "\x9b", "a\nb", "\u202e"
    words = [f"{sign}w{i}" for i, sign in enumerate(signs)]
    words += [f"w{i}" for i in range(len(words), N)]
    np.savez(files / "c.npz", words=np.array(words), vectors=x)
    for terminal in (False, True):
        if terminal:
            monkeypatch.setenv("FORCE_COLOR", "1")
            monkeypatch.setenv("NO_COLOR", "1")
        status, out, _ = run("align", "c.npz", "b.vec", "--quiet")
        assert status == 0
        assert not {*"\x9b\u202e"} & {*out} and "\x1b[31m" not in out
        assert r"\x1b[31mw0" in out


# --- Terminals and pipes ----------------------------------------------------------------


def test_a_narrow_terminal_shows_the_figures(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("FORCE_COLOR", "1")
    status, out, _ = run(*ALIGN, "--dictionary", "pairs.txt")
    assert status == 0
    out = re.sub(r"\x1b\[[0-9;]*m", "", out)
    assert out.count("1.000") == 9 and "✓ t5" in out
    assert max(map(len, out.splitlines())) <= 50


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
    # ASCII has plus and minus in place of the signs for right and wrong.
    lines = done.stdout.decode("ascii").splitlines()
    assert "+ the list has it, - it does not" in lines
    assert lines[0] == f"source\t{long / 'a.vec'}: 60 words, 6 columns"
    assert not [line for line in lines if line != line.rstrip() or "  " in line]
    assert not any("..." in line for line in lines)
    assert tree(files / "out") == FILES


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_terminal_of_80_columns(files):
    """The bar and the tables keep to the width of the terminal."""
    arguments = "align", "a.vec", "b.vec", "--dictionary", "pairs.txt"
    status, text, _ = on_terminal(*arguments, cwd=files)
    assert status == 0
    assert "\x1b[" in text
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert "gw_cost" in plain
    for line in re.split(r"[\r\n]+", plain):
        assert len(line) <= 80, line


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


# --- Progress, interrupts and failures --------------------------------------------------


def test_progress_has_the_change_and_the_time_left(run, monkeypatch):
    """Report two descents, the second with a change that does not fall."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)

    cost = np.abs(np.subtract.outer(np.arange(9.0) ** 1.5, np.arange(9.0) ** 1.5))
    step = gwfast.gromov_wasserstein(cost, cost).history[0]

    def solve(*_, callback, **__):
        nonlocal now
        for fall in (0.5, 1.0):
            for k in range(1, 9):
                now += 20.0
                change = 0.1 * fall**k
                numbers = {"gw_cost": 0.0123456, "marginal_error": 1e-3, "seconds": 20.0 * k}
                callback(step._replace(iteration=k, change=change, **numbers))
        raise ValueError("enough")

    monkeypatch.setattr(gwfast, "align", solve)
    lines = run("align", "a.vec", "b.vec")[2].splitlines()
    assert lines[1] == (
        "outer 2: gw_cost 0.0123456, change 2.5e-02, marginal error 1.0e-03 (40 s)"
    )  # too few to tell
    # From .1 / 256 a factor of 39 is left: 5.3 halvings of 20 s.
    assert lines[7] == (
        "outer 8: gw_cost 0.0123456, about 2 min left of this descent, change 3.9e-04,"
        " marginal error 1.0e-03 (3 min)"
    )
    assert len(lines) == 17 and not any("left" in line for line in lines[8:])


@pytest.mark.parametrize("kept", [False, True])
def test_an_interrupt_says_where_the_solve_is_kept(run, monkeypatch, kept):
    def interrupted(*_, checkpoint, **__):
        if kept:
            checkpoint.write_bytes(b"some")
        raise KeyboardInterrupt

    monkeypatch.setattr(gwfast, "align", interrupted)
    status, out, err = run("align", "a.vec", "b.vec", "--checkpoint", "kept", "--quiet")
    where = "; kept in kept: the same command goes on from there" if kept else ""
    assert (status, out, err.strip()) == (130, "", f"gwfast: interrupted{where}")


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
    """Let the solve fail, or the picture, which is written last."""

    def fail(*args, **kwargs):
        raise FAILURES[message]

    monkeypatch.setattr(where, fail)
    if existing:
        (files / "out").mkdir()
    before = tree(files)
    status, out, err = run(*ALIGN, "--output", "out")
    assert status == (130 if "interrupted" in message else 2)
    assert out == "" and err.replace(FEW_WARNING, "").strip() == message
    assert tree(files) == before


@pytest.mark.skipif(sys.platform != "linux", reason="asks for a folder of Linux")
def test_a_folder_that_cannot_be_written_is_named(run, files):
    status, out, err = run(*ALIGN, "--output", "/proc/x")
    assert (status, out) == (2, "")
    assert err == "gwfast: error: /proc/x: No such file or directory\n"
    before = tree(files)
    with full_disk(1000):
        status, out, err = run(*ALIGN, "--output", "out")
    assert (status, out) == (2, "")
    assert err.splitlines()[-1] == "gwfast: error: out: File too large"
    assert tree(files) == before


@pytest.mark.parametrize("name", ["source.vec", "dictionary.txt"])
def test_inputs_are_not_overwritten(run, files, name):
    given = {"source.vec": "a.vec", "dictionary.txt": "pairs.txt"}
    content = (files / given[name]).read_bytes()
    (files / "work").mkdir()
    (files / "work" / name).write_bytes(content)
    given[name] = f"work/{name}"
    source, pairs = given.values()
    options = "--output", "work", "--force", "--dictionary", pairs
    status, _, err = run("align", source, "b.vec", *options)
    assert status == 2
    assert f"--output must not hold folders or inputs, got work/{name} in it" in err
    assert (files / "work" / name).read_bytes() == content


# --- Advice -----------------------------------------------------------------------------

# Plans that are not balanced, and other methods, are not in reach of the command.
ADVICE = [ending.advice for ending in Ending if ending.name != "MISSED_ROWS"]


@pytest.mark.parametrize("name", ["align", "demo"])
def test_advice_names_options_of_the_command(run, monkeypatch, name):
    """And no argument of Python."""
    package = Path(gwfast.__file__).parent
    search = (package / "solvers" / "search" / "advice.py").read_text("utf-8")
    seeds = "a few known pairs (init=Seeds(...))"
    texts = [
        *ADVICE,
        f"try SolverOptions(search_time=...), {seeds}, or more points",
        f"try {seeds}, or costs without outliers",
        f'try init="auto" or {seeds}, or costs without outliers',
        "first a larger epsilon, or SolverOptions with a larger max_inner or marginal_tol",
        "try a larger epsilon than 0.1, or SolverOptions(max_inner=...)",
        "all plans have the same objective; costs that differ, or a linear_cost, decide",
        "try SolverOptions with a larger n_neighbors or tier='tiled', or an epsilon smaller than 1",
        "memory_limit is 1 GB; SolverOptions(tier='tiled') or fewer points would fit",
    ]
    assert all(part in search for part in (seeds, "costs without outliers", "max_inner=..."))
    known = {*re.findall(r"--[\w-]+", run(name, "--help")[1])}
    arguments = [name] if name == "demo" else ["align", "a.vec", "b.vec"]
    for text in filter(None, texts):

        def fail(*_, text=text, **__):
            raise ValueError(text)

        monkeypatch.setattr(gwfast, "align", fail)
        status, _, err = run(*arguments, "--quiet")
        assert status == 2
        assert {*re.findall(r"--[\w-]+", err)} <= known, err
        for argument in ("SolverOptions", "init=", "_tol", "_limit", "max_inner", "linear_cost"):
            assert argument not in err, err
        assert not re.search("larger (tol|epsilon)|or (tol|epsilon)", err), err
        assert ("--seeds" in err) == ("Seeds" in text and name == "align"), err
