"""Commands: options, failures, progress, advice, help, completion and missing packages."""

import contextlib
import itertools
import json
import re
import sys
import time
from types import SimpleNamespace
from unittest.mock import Mock

import matplotlib
import numpy as np
import pytest
from helpers.cli import ADVICE, ALIGN, FILES, N, ask, main, run, tree
from helpers.processes import full_disk
from helpers.vector_files import write_vectors

import gwfast
from gwfast.words import read_embeddings

COMMANDS = "align", "config", "convert", "demo", "evaluate", "map", "translate"


@pytest.fixture
def stand_in(monkeypatch):
    """Let a function take the place of `gwfast.align`."""
    return lambda function: monkeypatch.setattr(gwfast, "align", function)


def test_figures_and_translations_are_shown(files):
    before = tree(files)
    status, out, message = run("align", "a.vec", "b.vec", "--dictionary", "pairs.txt")
    assert status == 0
    lines = [line.split("\t") for line in out.splitlines()]
    facts = dict(line for line in lines if len(line) == 2)
    assert facts["source"] == "a.vec: 60 words, 6 columns"
    assert facts["transport"].startswith("60 x 60 words") and {"start", "gw_cost"} <= {*facts}
    assert re.fullmatch(r"converged, .* \d+ .*, confidence \d\.\d\d", facts["status"])
    for method in ("plan", "nearest neighbor", "CSLS"):  # Wilson: 60 hits of 60
        assert [method, "1.000", "0.940 to 1.000", "1.000", "1.000", "60 of 60"] in lines
    begin = lines.index(["translations"]) + 2
    first, *others = lines[begin : begin + 20]
    # Words that terminal markup would swallow are words like any other.
    assert first[:3] == ["[bold]", "✓ t0", "✓ t0"] and len(first[3].split(", ")) == 4
    assert all(line[1:3] == [f"✓ t{line[0][1:]}"] * 2 for line in others)
    assert lines[begin + 20][0].startswith("✓")
    (warning,) = re.findall("gwfast: warning: .*300 .* 60 and 60\n", message)
    assert message.startswith("start 1: profile") and "start 2" not in message
    assert "solving from" in message and ": gw_cost " in message
    assert "--output" in message.splitlines()[-1]
    # ASCII has no sign for right.
    status, out, message = run(*ALIGN, "--dictionary", "pairs.txt", encoding="ascii")
    assert "+ t5" in out and message == warning
    assert tree(files) == before


@pytest.mark.parametrize(
    "options, arguments",
    [
        ("--marginals zipf", dict(p="zipf", q="zipf")),
        ("--marginals counts --source-counts a.counts --target-counts b.counts", dict(p="counts")),
        ("--init product --tier tiled --memory-limit 1GB", dict(init="product")),
        ("--refine 0 --seed 3 --threads 1 --tol 0.001", dict(refine=0, tol=1e-3)),
        (
            "--normalize unit --init random --seed 5",
            dict(normalize=["unit"], init="random", seed=5),
        ),
        ("--lower --encoding latin-1 --epsilon 0.02", dict(epsilon=0.02)),
    ],
)
def test_options_reach_the_solver_and_the_record(files, options, arguments):
    found, _ = ask(*ALIGN, "--n-words", 40, *options.split())
    assert found["folder"] == str(files) and found["plan_shape"] == [40, 40]
    for name, value in re.findall(r"--(\w+) (\w[\w.-]*)", options):
        assert str(found["settings"][name]) in (value, f"['{value}']")
    assert "threads" not in options or found["n_threads"] == 1
    x, y = (read_embeddings(files / f"{side}.vec") for side in "ab")
    if arguments.get("p") == "counts":
        x, y = (z.with_counts({w: N - i for i, w in enumerate(z.words)}) for z in (x, y))
        arguments = dict(p=x.counts, q=y.counts)
    expected = gwfast.align(x, y, n_words=40, **({"init": "profile", "refine": 5} | arguments))
    assert found["gw"]["gw_cost"] == pytest.approx(expected.gw.gw_cost, rel=1e-3)
    assert found["gw"]["epsilon"] == pytest.approx(expected.gw.epsilon, rel=1e-6)
    assert len(found["refinement"]) == len(expected.refinement)


@pytest.mark.parametrize(
    "options, path, fact",
    [
        # MUSE puts words in lower case, and the paper takes the first translation of a line.
        ("--dictionary upper.txt --convention muse", "accuracy/csls/P@1", 1.0),
        ("--dictionary two.lex --convention gwfast", "accuracy/csls/P@1", 1.0),
        ("--dictionary two.lex --convention paper", "accuracy/csls/P@1", 0.0),
        ("--reverse-dictionary turned.txt", "accuracy/csls/queries", N),
        ("--dictionary turned.txt", "warnings", "--reverse-dictionary"),
        ("--seeds turned.txt --init auto", "warnings", "the other way round"),
        ("--seeds few.txt --init auto", "warnings", "--seeds: 6 of 7 pairs"),
        ("--seeds few.txt --init auto --dictionary pairs.txt", "accuracy/csls/P@1", 1.0),
        ("--init identical --dictionary pairs.txt", "accuracy/csls/queries", N - 20),
        ("--time-limit 1e-6", "gw/status", "degenerate"),
        ("--time-limit 1e-6", "gw/advice", "--time-limit, a larger --tol, or a smaller --n-words"),
        ("--max-vocab 50", "inputs/source/words", 50),
    ],
)
def test_options_change_what_is_found(files, options, path, fact):
    pairs = (files / "pairs.txt").read_text()
    (files / "upper.txt").write_text(pairs.upper())
    (files / "few.txt").write_text("".join(pairs.splitlines(keepends=True)[3:9]) + "nowhere t1\n")
    lines = [f"{word} t{(i + 1) % N} t{i}\n" for i, word in enumerate(pairs.split()[::2])]
    (files / "two.lex").write_text("".join(lines))
    if "identical" in options:
        alike = re.sub(r"t(1?\d) ", r"s\1 ", (files / "b.vec").read_text())
        (files / "b.vec").write_text(alike)
    found, message = ask(*ALIGN, "--methods", "csls", *options.split())
    assert message == "".join(f"gwfast: warning: {text}\n" for text in found["warnings"])
    for name in path.split("/"):
        found = found[name]
    assert found == fact or (isinstance(fact, str) and fact in str(found))


@pytest.mark.parametrize("columns", [50, 80])
def test_terminals_are_kept_to_their_width_and_not_commanded(files, monkeypatch, columns):
    x = read_embeddings(files / "a.vec").vectors
    words = ["\x1b[31mw0", "\x9bw1", "a\nbw2", "\u202ew3", *(f"s{i}" for i in range(4, N))]
    np.savez(files / "c.npz", words=np.array(words), vectors=x)
    arguments = "align", "c.npz", "b.vec", "--init", "profile"
    assert r"\x1b[31mw0" in run(*arguments)[1]
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("FORCE_COLOR", "1")
    status, out, message = run(*arguments, "--dictionary", "pairs.txt")
    assert status == 0 and not {*"\x9b\u202e"} & {*out} and "\x1b[31mw" not in out
    out, message = (re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text) for text in (out, message))
    assert out.count("1.000") == 9 + 3 * (columns > 72) and "✓ t5" in out
    # There are fewer words than translations are shown.
    write_vectors(files / "c.vec", ["x", "y", "z"], np.eye(3) + 0.1)
    found = ask("align", "c.vec", "c.vec", "--quiet")[0]["translations"]
    assert [*found] == [*"xyz"] and all(sorted(best) == [*"xyz"] for best in found.values())
    bars = [line for line in re.split(r"[\r\n]+", message) if "━" in line]
    assert bars and max(map(len, [*out.splitlines(), *bars])) <= columns


def test_a_folder_is_written_again(files):
    """Without dictionary, and with pictures of the user's style, which change nothing."""
    (files / "out").mkdir()
    for name in ("target.vec", "notes.txt"):
        (files / "out" / name).write_text("mine")
    given = *ALIGN, "--output", "out", "--force", "--threads", 1, "--refine", 0
    assert run(*given)[0] == 0
    # Without a result, nothing in a folder is a result of ours.
    assert tree(files / "out") == sorted([*FILES, "notes.txt", "target.vec"])
    first = (files / "out" / "report.html").read_text("utf-8")
    assert re.findall('<table.*id="(.*?)"', first) == ["translations"]
    assert '<th scope="col">dictionary' not in first and 'value="right"' not in first
    with matplotlib.rc_context({"font.size": 20, "text.color": "red"}):
        found, _ = ask(*given)
    assert found == json.loads((files / "out" / "result.json").read_text("utf-8"))
    # A later run removes the vectors of an earlier run.
    assert tree(files / "out") == sorted([*FILES, "notes.txt"])
    again = (files / "out" / "report.html").read_text("utf-8")
    seconds = re.compile(r"<dt>seconds</dt><dd>[\d.]+")
    assert seconds.sub("", again) == seconds.sub("", first)
    assert not [name for name in tree(files) if ".gwfast" in name]


@pytest.mark.parametrize(
    "error, status, told",
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError("9 GB"), 2, "error: 9 GB"),
        (OSError(28, "No space left", "f"), 2, "error: f: No space left"),
    ],
)
def test_nothing_is_left_after_a_failure(files, monkeypatch, stand_in, error, status, told):
    """Let the picture fail, which is written last, then the disk be full, then the solve fail."""
    monkeypatch.setattr("gwfast.plot.plot_dynamics", Mock(side_effect=error))
    if status == 130:
        (files / "out").mkdir()
    before = tree(files)
    *ended, message = run(*ALIGN, "--output", "out")
    assert ended == [status, ""] and message.splitlines()[-1] == f"gwfast: {told}"
    with full_disk(1000):
        *ended, message = run(*ALIGN, "--output", "out")
    assert ended == [2, ""] and message.splitlines()[-1] == "gwfast: error: out: File too large"
    stand_in(Mock(side_effect=error))
    assert run(*ALIGN, "--output", "out")[2].strip() == f"gwfast: {told}"
    assert tree(files) == before
    # The message of an interrupted solve has the file with its state.
    (files / "kept").write_bytes(b"some")
    assert ("kept in kept" in run(*ALIGN, "--checkpoint", "kept")[2]) == (status == 130)


def test_progress_has_the_change_and_the_time_left(stand_in, monkeypatch):
    """Report two descents, the second with a change that does not fall."""
    now = itertools.count(0.0, 20.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(now))

    def solve(*_, callback, **__):
        for fall in (0.5, 1.0):
            for k in range(1, 9):
                step = dict(
                    iteration=k, gw_cost=0.0123456, change=(0.1 if fall < 1 else 1e-3) * fall**k
                )
                callback(SimpleNamespace(**step, marginal_error=1e-3, seconds=20.0 * k))
        raise ValueError("x must be\n2-D")

    stand_in(solve)
    *lines, last = run("align", "a.vec", "b.vec")[2].splitlines()
    assert len(lines) == 16 and last == "gwfast: error: x must be 2-D"
    # From .1 / 256 a factor of 39 is left: 5.3 halvings of 20 s.
    for fact in ("outer 8", "0.0123456", "2 min left", "change 3.9e-04", "marginal error 1.0e-03"):
        assert fact in lines[7]
    assert not any("left" in line for line in [*lines[:2], *lines[8:]])  # too few to tell


def test_a_checkpoint_is_written_and_gone_on_from(files):
    given = "align", "a.vec", "b.vec", "--checkpoint", "kept", "--epsilon", "2%"
    status, out, message = run(*given)
    assert status == 0 and (files / "kept").stat().st_size > 0 and "going on" not in message
    status, again, message = run(*given)
    assert status == 0 and "going on from kept" in message
    # The search runs again, and counts the descent that went on as one more start.
    varies = re.compile(r"[\d.]+ s\b|best of \d+")
    assert varies.sub("", again) == varies.sub("", out)
    status, out, message = run(*given[:-1], "3%")
    assert (status, out) == (2, "") and "error: kept: the checkpoint" in message


@pytest.mark.parametrize("name", ["align", "demo"])
def test_advice_names_options_of_the_command(stand_in, name):
    """And no argument of Python."""
    seeds = "a few known pairs (init=Seeds(...))"
    texts = [
        *ADVICE,
        f"try SolverOptions(search_time=...), {seeds}, or more points",
        f"try SolverOptions with a larger search_time, {seeds}, or more points",
        f'try init="auto" or {seeds}, or costs without outliers',
        "try a larger epsilon than 0.1, or SolverOptions(max_inner=...)",
        "all plans have the same objective; costs that differ, or a linear_cost, decide",
        "try SolverOptions with a larger n_neighbors or tier='tiled', or an epsilon smaller than 1",
        "memory_limit is 1 GB; SolverOptions(tier='tiled') or fewer points would fit",
    ]
    known = {*re.findall(r"--[\w-]+", run(name, "--help")[1])}
    for text in texts:
        stand_in(Mock(side_effect=ValueError(text)))
        status, _, message = run(name, *["a.vec", "b.vec"] * (name == "align"), "--quiet")
        assert status == 2 and {*re.findall(r"--[\w-]+", message)} <= known, message
        arguments = r"SolverOptions|init=|_tol|_limit|max_inner|linear_cost"
        assert not re.search(f"{arguments}|(larger|or) (tol|epsilon)", message), message
        assert ("--seeds" in message) == ("Seeds" in text and name == "align"), message


@pytest.mark.slow
def test_demo():
    """The whole way on real words; 0.62, 0.77 and 0.78 when this was written."""
    found, _ = ask("demo", "--quiet", "--n-words", 1200)
    assert found["plan_shape"] == [1200, 1200]
    shares = [score["P@1"] for score in found["accuracy"].values()]
    assert len(shares) == 3 and all(np.array(shares) >= [0.55, 0.6, 0.6])


def test_help_version_and_config():
    for arguments in ([], ["-h"]):
        status, out, _ = run(*arguments)
        assert status == 0 and all(f"  {name} " in out for name in COMMANDS)
        assert "... " not in out  # no sentence is cut off
    for name in COMMANDS:
        status, out, _ = run(name, "--help")
        assert status == 0 and max(map(len, out.splitlines())) <= 80
    assert run("--version")[1].split()[-1] == gwfast.__version__
    assert gwfast.__version__ in run("config")[1]
    assert ask("config")[0]["gwfast"] == gwfast.__version__


def test_options_are_completed_and_closed_output_is_an_error(monkeypatch, capsys):
    variables = dict(_GWFAST_COMPLETE="bash_complete", COMP_WORDS="gwfast align --di", COMP_CWORD=2)
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().out == "plain,--dictionary\n"
    with contextlib.redirect_stdout(None):
        assert main(["config", "--json"]) == 1
    assert "closed" in capsys.readouterr().err


def test_missing_packages_are_named(files, monkeypatch):
    monkeypatch.syspath_prepend(files)
    # The first line has the stand-in removed afterwards also if Dask was not imported before.
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "distributed")
    for content, told in (
        ("raise ImportError(\"No module named 'distributed'\")", "gwfast-ot[distributed]"),
        ("def Client(*_, **__): raise ValueError('no port')", "--scheduler foo: no port\n"),
    ):
        (files / "distributed.py").write_text(content)
        message = run("demo", "--scheduler", "foo", "--quiet")[2]
        assert "--scheduler" in message and told in message
    for names in (["joblib"], ["click", "rich", "matplotlib", "jinja2", "joblib"]):
        for name in names:
            monkeypatch.setitem(sys.modules, name, None)
        status, out, message = run("demo")
        assert (status, out) == (2, "")
        assert f" {', '.join(names)}: " in message and "gwfast-ot[cli]" in message


@pytest.mark.parametrize("name", ["c.bin", "c.vec.gz"])
def test_convert(files, name):
    told = f"{name}: 7 words, 6 columns\n"
    assert run("convert", "a.vec", name, "--max-vocab", 7) == (0, told, "")
    given, written = read_embeddings(files / "a.vec"), read_embeddings(files / name)
    assert written.words == given.words[:7]
    np.testing.assert_array_equal(written.vectors, given.vectors[:7])
    found, _ = ask("convert", "a.vec", name, "--force", "--max-bytes", 10**6)
    assert found["words"] == N == len(read_embeddings(files / name))
    # Rows that cannot be used as they are.
    twice, bad = b"a 1 2\nb\t3\t4\nc 0 0\n 5 6\nd 7 8\nA 5 6\n", b"a 1 2\n\xff 1 2\n"
    dropped = "1 dropped (duplicates), 1 dropped (not UTF-8), 3 dropped"
    for content, options, described in (
        (twice + bad[6:], "--bad-rows skip --lower", f"2 words, 2 columns, {dropped}"),
        (bad, "--bad-rows replace", "2 words, 2 columns, 1 with replaced"),
        (b"1 2\nin spite of 1 2\n", "--space _", "1 word, 2 columns"),
    ):
        (files / "c.vec").write_bytes(content)
        status, out, _ = run("convert", "c.vec", name, "--force", *options.split())
        assert status == 0 and out.startswith(f"{name}: {described}")
        assert read_embeddings(files / name).words[0] in ("a", "in_spite_of")
