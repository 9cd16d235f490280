"""Test the manners of all commands: help, errors of one line, completion, missing packages."""

import json
import sys

import pytest
from helpers.cli import N, main
from helpers.files import tree
from helpers.processes import run_python

import gwfast

COMMANDS = "align", "config", "convert", "demo", "evaluate", "map", "translate"


def test_help_and_version(run):
    for arguments in ([], ["--help"], ["-h"]):
        status, out, _ = run(*arguments)
        assert status == 0
        assert (
            all(f"  {name} " in out for name in COMMANDS)
            and "... " not in out
            and "...\n" not in out[50:]
        )
    assert run("--version")[:2] == (0, f"gwfast, version {gwfast.__version__}\n")
    for name in COMMANDS:
        status, out, _ = run(name, "--help")
        assert status == 0 and max(map(len, out.splitlines())) <= 80


def test_config(run):
    status, out, _ = run("config")
    assert status == 0 and gwfast.__version__ in out
    status, out, _ = run("config", "--json")
    assert status == 0 and json.loads(out)["gwfast"] == gwfast.__version__


@pytest.mark.parametrize(
    "words, expected",
    [
        ("gwfast tr", "translate"),
        ("gwfast --ver", "--version"),
        ("gwfast align --di", "--dictionary"),
    ],
)
def test_commands_and_options_are_completed(monkeypatch, capsys, words, expected):
    monkeypatch.setenv("_GWFAST_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().out == f"plain,{expected}\n"


BAD = {
    "aling": "No such command 'aling'",
    "align none.vec b.vec": "File 'none.vec' does not exist",
    "align . b.vec": "is a directory",
    "align empty b.vec": "empty: expected word vectors, got 0 bytes",
    "align bad.vec b.vec": "bad.vec:3: expected a word and 2 numbers",
    "align zero.vec b.vec": (
        "with a direction, got 0 for 'b' (1 of 2 rows); --encoding-errors skip"
    ),
    "align a.counts b.vec": "a.counts: vectors have one column: is this an embedding file?",
    "align a.vec b.vec --dictionary bad.vec": "bad.vec:2:",
    "align a.vec b.vec --dictionary other.txt": (
        "-dictionary must have a pair whose words are in a.vec and b.vec, got none of 1 words"
    ),
    "align a.vec b.vec --reverse-dictionary pairs.txt": "or the wrong way round?",
    "align a.vec b.vec --epsilon 0": "number above 0, a perce",
    "align a.vec b.vec --init nonsense": "Invalid value for '--init'",
    "align a.vec b.vec --normalize unit,fold": "must be unit and center, then perhaps mean, median",
    "align a.vec b.vec --n-words 0": "Invalid value for '--n-words'",
    "align a.vec b.vec --memory-limit 9kB": "--memory-limit is 9e-06 GB",
    "align a.vec b.vec --memory-limit 2x": "--memory-limit must be a number of bytes or text such",
    "align a.vec b.vec --tol 0": "Invalid value for '--tol'",
    "align a.vec b.vec --time-limit 0": "Invalid value for '--time-limit'",
    "align a.vec b.vec --methods csls,magic": "'magic' is not one of 'coupling', 'barycentric'",
    "align a.vec b.vec --marginals counts": "go together",
    "align a.vec b.vec --source-counts a.counts": "go together",
    "align a.vec b.vec --marginals counts --source-counts b.counts --target-counts b.counts": (
        "b.counts: counts must cover every word: none for '[bold]'"
    ),
    "align a.vec b.vec --seeds pairs.txt --init product": "do not go together",
    "align a.vec b.vec --seeds other.txt": "--seeds must have a pair of the first 60 and 60",
    "align a.vec b.vec --init identical": "--init identical must have a pair of the first",
    "align a.vec b.vec --checkpoint x/y": "--checkpoint must be a file in an existing folder",
    "align a.vec b.vec --max-bytes 500": "a.vec:1: expected at most 500 bytes",
    "align a.vec b.vec --output a.vec": "got the file a.vec",
    "align a.vec b.vec --output x/y": "in an existing folder",
    "align a.vec b.vec --output .": "must be empty",
    "align a.vec b.vec --vectors text": "--vectors needs --output",
    "align a.vec b.vec --nonsense": "No such option",
    "align a.vec": "Missing argument 'TGT'",
    "convert a.vec c.npy": "DST must end in .vec, .txt, .bin (or with .gz) or .npz",
    "convert a.vec .npz": "or .npz, got .npz",
    "convert a.vec no/c.vec": "DST must be in an existing folder",
    "convert a.vec c.vec --max-bytes 500": "; --max-bytes sets the limit",
    "convert spaces.vec c.bin": "a space or line break; see --space",
    "convert rows.vec c.npz": "a tab; --encoding-errors skip leaves such rows",
    "convert rows.vec c.npz --encoding nonsense": "--encoding must",
    "convert latin.vec c.npz": "--encoding latin-1, --encoding-errors replace or skip reads on",
    "convert short.vec c.npz": "; --max-vocab 2 or --encoding-errors skip reads on",
    "translate none x": "Path 'none' does not exist",
    "translate . x": "DIR must be a folder of gwfast align, got . without translations.tsv",
    "translate other x": "translations.tsv is damaged: the first line must be the columns source, ",
    "translate cut que": "translations.tsv is damaged: a line has 3 fields: 'que\\t1\\tx\\n'",
    "translate .": "Missing argument 'WORD...'",
    "translate . x --direction backward": "got . without mapping.npz",
    "map . a.vec": "got . without mapping.npz",
    "map SAVED short.vec --max-vocab 2": "short.vec: x must have 6 columns, got 2",
    "map SAVED a.vec --json": "--json needs --output",
    "map SAVED a.vec --output x": "--output must end in .vec",
    "map SAVED a.vec --output x/y.vec": "in an existing folder",
    "map SAVED a.vec --output b.vec": "--output must not exist without --force, got b.vec",
    "map a.vec a.vec": "a.vec: damaged, or no file of Alignment",
    "evaluate SAVED": "--dictionary or --reverse-dictionary is missing",
    "evaluate SAVED --dictionary other.txt": "got none of 1 words: other languages, or the wrong",
    "evaluate SAVED --dictionary pairs.txt --methods coupling": "--methods must be one of",
    "evaluate SAVED --dictionary pairs.txt --max-bytes 9": "--max-bytes sets the limit",
}


@pytest.mark.parametrize("arguments, message", BAD.items(), ids=BAD)
def test_bad_input(run, files, saved, arguments, message):
    """One line, status 2, nothing written."""
    for name, content in {
        "empty": b"",
        "bad.vec": b"2 2\na 1 2\nb 1\n",
        "zero.vec": b"2 2\na 1 2\nb 0 0\n",
        "rows.vec": b"a 1 2\nb\t3\t4\n",
        "short.vec": b"3 2\na 1 2\nb 3 4\n",
        "latin.vec": b"a 1 2\nb\xff 3 4\n",
        "spaces.vec": b"1 2\nin spite of 1 2\n",
    }.items():
        (files / name).write_bytes(content)
    columns = "source\trank\tcsls\tcsls_score\tcoupling\tcoupling_share\tmutual\n"
    for name, lines in (("other", "a\tb\n"), ("cut", f"{columns}que\t1\tx\n")):
        (files / name).mkdir()
        (files / name / "translations.tsv").write_text(lines)
    before = tree(files)
    arguments = arguments.replace("SAVED", str(saved)).split()
    if arguments[0] == "align":
        arguments += (
            [] if "--output" in arguments or "--vectors" in arguments else ["--output", "out"]
        )
        arguments += ["--quiet"]
    status, out, err = run(*arguments)
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith("gwfast: error: ")
    assert message in err
    assert tree(files) == before


def test_rows_that_cannot_be_used_are_skipped_if_asked(run, files):
    (files / "c.vec").write_bytes(b"a 1 2\nb\t3\t4\nc 0 0\n 5 6\nd 7 8\nA 5 6\n\xff 1 2\n")
    skip = "convert", "c.vec", "c.npz", "--encoding-errors", "skip", "--lower"
    dropped = "1 dropped (duplicates), 1 dropped (not UTF-8), 3 dropped (cannot be used)"
    assert run(*skip) == (0, f"c.npz: 2 words, 2 columns, {dropped}\n", "")
    (files / "e.vec").write_text("1 2\nin spite of 1 2\n")
    assert run("convert", "e.vec", "e.bin", "--space", "_")[0] == 0
    assert gwfast.words.read_embeddings(files / "e.bin").words == ("in_spite_of",)
    big = "convert", "a.vec", "d.npz", "--max-bytes", "1000000"
    assert run(*big) == (0, f"d.npz: {N} words, 6 columns\n", "")


def test_closed_output_is_told(monkeypatch, capsys):
    """Exit with an error if standard output is closed: results would be lost."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        assert main(["config", "--json"]) == 1
    assert capsys.readouterr().err == "gwfast: error: standard output is closed\n"


EXTRA = ["click", "rich", "matplotlib", "jinja2", "joblib"]


@pytest.mark.parametrize("names", [EXTRA, EXTRA[-1:]], ids=len)
def test_without_the_extra(monkeypatch, capsys, names):
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)
    assert main(["demo"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    needed = f'the command line needs {", ".join(names)}: pip install "gwfast-ot[cli]"'
    assert err == f"gwfast: error: {needed}\n"


def test_a_scheduler_needs_dask(run, files, monkeypatch):
    missing = "raise ImportError(\"No module named 'distributed'\")"
    (files / "distributed.py").write_text(missing)
    monkeypatch.syspath_prepend(files)
    monkeypatch.delitem(sys.modules, "distributed", raising=False)
    status, out, err = run("demo", "--scheduler", "tcp://127.0.0.1:1", "--quiet")
    assert (status, out) == (2, "") and "--scheduler needs dask: pip install" in err
    refuse = "def Client(address, **_):\n    raise ValueError('missing port')"
    (files / "distributed.py").write_text(refuse)
    err = run("demo", "--scheduler", "foo", "--quiet")[2]
    assert err == "gwfast: error: --scheduler foo: missing port\n"


@pytest.mark.process
def test_words_need_no_extra():
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({EXTRA}))\n"
        "import gwfast.words\n"
        "assert len(gwfast.words.load_sample()) == 3\n"
    )
    run_python(code)
