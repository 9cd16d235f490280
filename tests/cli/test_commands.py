"""Help, completion and missing packages, and the commands that read a folder of results."""

import contextlib
import json
import sys

import numpy as np
import pytest
from helpers import cli
from helpers.cli import N

import gwfast
from gwfast.words import read_embeddings

COMMANDS = "align", "config", "convert", "demo", "evaluate", "map", "translate"
EXTRA = ["click", "rich", "matplotlib", "jinja2", "joblib"]


def test_help_version_and_config(run):
    for arguments in ([], ["-h"]):
        status, out, _ = run(*arguments)
        assert status == 0 and all(f"  {name} " in out for name in COMMANDS)
        assert "... " not in out  # no sentence is cut off
    for name in COMMANDS:
        status, out, _ = run(name, "--help")
        assert status == 0 and max(map(len, out.splitlines())) <= 80
    assert run("--version")[1].split()[-1] == gwfast.__version__
    assert gwfast.__version__ in run("config")[1]
    assert json.loads(run("config", "--json")[1])["gwfast"] == gwfast.__version__


def test_options_are_completed_and_closed_output_is_an_error(monkeypatch, capsys):
    variables = dict(_GWFAST_COMPLETE="bash_complete", COMP_WORDS="gwfast align --di", COMP_CWORD=2)
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(SystemExit):
        cli.main([])
    assert capsys.readouterr().out == "plain,--dictionary\n"
    with contextlib.redirect_stdout(None):
        assert cli.main(["config", "--json"]) == 1
    assert "closed" in capsys.readouterr().err


def test_missing_packages_are_named(run, files, monkeypatch):
    missing = "raise ImportError(\"No module named 'distributed'\")"
    (files / "distributed.py").write_text(missing)
    monkeypatch.syspath_prepend(files)
    monkeypatch.delitem(sys.modules, "distributed", raising=False)
    message = run("demo", "--scheduler", "foo", "--quiet")[2]
    assert "--scheduler" in message and "[distributed]" in message
    refuse = "def Client(address, **_):\n    raise ValueError('missing port')"
    (files / "distributed.py").write_text(refuse)
    message = run("demo", "--scheduler", "foo", "--quiet")[2]
    assert message == "gwfast: error: --scheduler foo: missing port\n"
    for names in (EXTRA[-1:], EXTRA):
        for name in names:
            monkeypatch.setitem(sys.modules, name, None)
        status, out, message = run("demo")
        assert (status, out) == (2, "")
        assert f" {', '.join(names)}: " in message and "gwfast-ot[cli]" in message


@pytest.mark.parametrize("name", ["c.bin", "c.vec.gz"])
def test_convert(run, files, name):
    assert run("convert", "a.vec", name, "--max-vocab", 7)[1:] == (
        f"{name}: 7 words, 6 columns\n",
        "",
    )
    given, written = read_embeddings(files / "a.vec"), read_embeddings(files / name)
    assert written.words == given.words[:7]
    np.testing.assert_array_equal(written.vectors, given.vectors[:7])
    status, out, _ = run("convert", "a.vec", name, "--force", "--json", "--max-bytes", 10**6)
    assert status == 0 and json.loads(out)["words"] == N == len(read_embeddings(files / name))


@pytest.mark.parametrize("content, options, described", [
    (b"a 1 2\nb\t3\t4\nc 0 0\n 5 6\nd 7 8\nA 5 6\n\xff 1 2\n", "--encoding-errors skip --lower",
     "2 words, 2 columns, 1 dropped (duplicates), 1 dropped (not UTF-8), 3 dropped"),
    (b"a 1 2\n\xff 1 2\n", "--encoding-errors replace", "2 words, 2 columns, 1 with replaced"),
    (b"1 2\nin spite of 1 2\n", "--space _", "1 word, 2 columns"),
])  # fmt: skip
def test_rows_that_cannot_be_used_as_they_are(run, files, content, options, described):
    (files / "c.vec").write_bytes(content)
    status, out, _ = run("convert", "c.vec", "d.bin", *options.split())
    assert status == 0 and out.startswith(f"d.bin: {described}")
    assert read_embeddings(files / "d.bin").words[0] in ("a", "in_spite_of")


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_words_are_translated(run, folder, rows, monkeypatch, direction):
    is_forward = direction == "forward"
    source, target = ("s7", "s7!") if is_forward else ("s7!", "s7")
    arguments = "translate", folder, "--direction", direction
    status, out, message = run(*arguments, source, source.replace("7", "9"), "-k", 3)
    assert (status, message) == (0, "")
    header, *lines = (line.split("\t") for line in out.splitlines())
    assert header == [*rows[0]]
    assert lines[0][:3:2] == [source, target] and "9" in lines[3][0] and "9" in lines[3][2]
    assert [line[1::5] for line in lines] == [["1", "yes"], ["2", ""], ["3", ""]] * 2
    if is_forward:
        assert all(dict(zip(header, line, strict=True)) in rows for line in lines)
    status, out, message = run(*arguments, source, "nothing", "--json")
    assert status == 1 and "'nothing'" in message and ("source" in message) == is_forward
    ((word, found),) = json.loads(out).items()
    assert (word, found["mutual"], len(found["csls"])) == (source, True, 5)
    assert len(found["coupling"]) == 5 * is_forward
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    out = run(*arguments, source, "-k", 1)[1]
    assert "translations  " in out and f" {source}  " in out and f" {target} " in out


def test_hard_words_are_found_and_do_not_command_the_terminal(run, spaces, folder, monkeypatch):
    asked = [word for word in spaces.words[0] if "\0" not in word and word != "\ud800"]
    status, out, _ = run("translate", folder, "--json", "--", *asked)
    found = json.loads(out)
    assert status == 0 and [*found] == asked
    assert {row["word"] for best in found.values() for row in best["csls"]} <= {*spaces.words[1]}
    for name in ("NO_COLOR", "FORCE_COLOR"):  # the second makes it a terminal
        monkeypatch.setenv(name, "1")
        status, out, message = run("translate", folder, "--", *asked)
        assert (status, message) == (0, "")
        assert not {*"\x85\u2028\u202e"} & {*out} and "\x1b[31m" not in out


def test_a_folder_is_evaluated(run, files, folder, record):
    arguments = "evaluate", folder, "--dictionary"
    status, out, message = run(*arguments, folder.parent / "pairs.txt")
    assert (status, message) == (0, "")
    lines = [line.split("\t") for line in out.splitlines()]
    csls = record["accuracy"]["csls"]
    assert [line[0] for line in lines[2:4]] == ["nearest neighbor", "CSLS"]
    bounds = " to ".join(f"{bound:.3f}" for bound in csls["intervals_95"]["P@1"])
    figures = [f"{csls[name]:.3f}" for name in ("P@1", "P@5", "P@10")]
    assert "100.0%" in lines[-1][0]
    assert lines[3][1:] == [figures[0], bounds, *figures[1:], "32 of 32"]
    (files / "right.txt").write_text("".join(f"s{i} s{i}!\n" for i in range(2, 30)))
    turned = "".join(f"s{i}! s{i}\n" for i in range(2, 30))
    (files / "turned.txt").write_text(turned)
    (files / "few.txt").write_text("s2 s2!\n" + "".join(f"x{i} s7!\n" for i in range(20)))
    options = "--methods", "inverted_softmax", "--json"
    for option, name in (("--dictionary", "right.txt"), ("--reverse-dictionary", "turned.txt")):
        found = json.loads(run("evaluate", folder, option, name, *options)[1])
        score = found["accuracy"]["inverted_softmax"]
        assert (score["P@1"], score["queries"], found["warnings"]) == (1.0, 28, [])
    status, _, message = run(*arguments, "few.txt")
    assert status == 0 and "1 of 21 words" in message


@pytest.mark.parametrize("side", ["source", "target"])
def test_new_vectors_are_mapped(run, files, folder, spaces, side):
    name = {"source": "a.vec", "target": "b.vec"}[side]
    given = read_embeddings(files / name)
    arguments = "map", folder, name, "--side", side, "--max-vocab", 9
    status, out, message = run(*arguments, "--output", "new.npz")
    assert (status, out, message) == (0, "new.npz: 9 words, 6 columns\n", "")
    mapped = read_embeddings(files / "new.npz")
    assert mapped.words == given.words[:9]
    use = spaces.transform if side == "source" else spaces.transform_target
    np.testing.assert_array_equal(mapped.vectors, use(given.vectors[:9]))
    spaces.save("kept")  # a file that Python has saved
    (files / "piped.vec").write_text(run("map", "kept", *arguments[2:])[1], encoding="utf-8")
    piped = read_embeddings(files / "piped.vec")
    assert piped.words == mapped.words
    np.testing.assert_array_equal(piped.vectors, mapped.vectors)
    status, out, _ = run(*arguments, "--output", "new.npz", "--force", "--json")
    assert json.loads(out)["words"] == 9
