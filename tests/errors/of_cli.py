"""Refusals of the command line: a line, and the option and the value in the error.

The error is one line, the exit status 2, and nothing is written.
"""

import functools

import pytest
from helpers.cli import N, run, tree, write_files
from helpers.problems import rotated_pair

import gwfast

COLUMNS = "source\trank\tcsls\tcsls_score\tplan\tplan_share\tmutual\n"
FILES = {
    "bad.vec": b"2 2\na 1 2\nb 1\n",
    "zero.vec": b"2 2\na 1 2\nb 0 0\n",
    "rows.vec": b"a 1 2\nb\t3\t4\n",
    "short.vec": b"3 2\na 1 2\nb 3 4\n",
    "latin.vec": b"a 1 2\nb\xff 3 4\n",
    "comma.csv": b"a,1,2\nb,3,4\n",
    "semicolon.csv": b"a; 1; 2\nb; 3; 4\n",
    "pairs.csv": b"s5,t5\n",
    "wrong.vec": b"2 3\na 1 2\nb 3 4\n",
    "done/result.json": b"{}",
    "spaces.vec": b"1 2\nin spite of 1 2\n",
    "other/translations.tsv": b"a\tb\n",
    "work/source.vec": b"2 2\na 1 2\nb 3 4\n",
    "work/dictionary.txt": b"s5 t5\n",
    "cut/translations.tsv": COLUMNS.encode() + b"que\t1\tx\n",
}


@functools.cache
def aligned():
    return gwfast.align(*rotated_pair(N, 6, 7)[:2], init="profile")


def refused(line, folder):
    words = write_files(folder)
    for name, content in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    if "saved" in line:
        aligned().with_words(*words).save(folder / "saved")
    before = tree(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        status, out, message = run(*line.split(), *["--quiet"] * line.startswith("align"))
    assert (status, out, message.count("\n")) == (2, "", 1), message
    assert message.startswith("gwfast: error: ")
    assert tree(folder) == before
    raise ValueError(message)


PAIR = "align a.vec b.vec "
COUNTS = PAIR + "--marginals counts --source-counts b.counts --target-counts b.counts"
WORK = PAIR + "--output work --force"
LINES = [
    ("align . b.vec", "SRC", "is a directory"),
    ("align bad.vec b.vec", "bad.vec:3", "2 numbers"),
    ("convert comma.csv c.npz", "comma.csv:1", "one space, not a comma"),
    ("convert semicolon.csv c.npz", "semicolon.csv:1", "not a semicolon"),
    ("convert wrong.vec c.npz", "wrong.vec:1", "header says 3, rows have 2"),
    (PAIR + "--dictionary pairs.csv", "pairs.csv:1", "a tab, not a comma"),
    (PAIR + "--output done", "--output done", "already has results; --force replaces them"),
    (PAIR + "--epsilon x", "--epsilon", "2%, or auto, got x"),
    ("map comma.csv a.vec", "comma.csv", "no result of gwfast align"),
    ("align zero.vec b.vec", "--bad-rows", "zero.vec: expected vectors with a direction"),
    ("align a.counts b.vec", "a.counts", "one column"),
    (PAIR + "--dictionary other.txt", "--dictionary", "a.vec and b.vec, got none of 1 words"),
    (PAIR + "--epsilon 0", "--epsilon", "number above 0"),
    (PAIR + "--normalize unit,fold", "--normalize", "unit,fold"),
    (PAIR + "--memory-limit 2x", "--memory-limit", "2x"),
    (PAIR + "--tol 0", "--tol", 0),
    (PAIR + "--methods csls,magic", "--methods", "magic"),
    (PAIR + "--marginals counts", "--source-counts", "together"),
    (PAIR + "--source-counts a.counts", "--marginals", "together"),
    (COUNTS, "b.counts", "'[bold]'"),
    (PAIR + "--seeds pairs.txt --init product", "--seeds", "--init"),
    (PAIR + "--seeds other.txt", "--seeds", "60 and 60"),
    (PAIR + "--init identical", "--init identical", "60 and 60"),
    (PAIR + "--checkpoint x/y", "--checkpoint", "x/y"),
    (PAIR + "--output a.vec", "--output", "a.vec"),
    (PAIR + "--output .", "--output", "--force, got ."),
    (PAIR + "--vectors text", "--vectors", "--output"),
    ("align work/source.vec b.vec --output work --force", "--output", "work/source.vec"),
    (WORK + " --dictionary work/dictionary.txt", "--output", "work/dictionary.txt"),
    ("convert a.vec c.npy", "DST", "c.npy"),
    ("convert a.vec .npz", "DST", "got .npz"),
    ("convert a.vec no/c.vec", "DST", "no/c.vec"),
    ("convert a.vec b.vec", "DST", "--force, got b.vec"),
    ("convert spaces.vec c.bin", "--space", "in spite of"),
    ("convert rows.vec c.npz", "--bad-rows", "rows.vec"),
    ("convert latin.vec c.npz", "--bad-rows", r"got 'b\xff'"),
    ("convert short.vec c.npz", "--max-vocab", 2),
    ("translate . x", "DIR", "translations.tsv"),
    ("translate other x", "other/translations.tsv", "columns"),
    ("translate cut que", "cut/translations.tsv", "3 fields"),
    ("translate . x --direction backward", "mapping.npz", "."),
    ("map saved short.vec --max-vocab 2", "short.vec", "6 columns, got 2"),
    ("map saved a.vec --json", "--json", "--output"),
    ("map saved a.vec --output x", "--output", "got x"),
    ("evaluate saved", "--dictionary", "--reverse-dictionary"),
    ("evaluate saved --dictionary other.txt", "--dictionary", "saved, got none of 1 words"),
    ("evaluate saved --dictionary pairs.txt --methods plan", "--methods", "plan"),
    ("evaluate saved --dictionary pairs.txt --max-bytes 9", "--max-bytes", "pairs.txt"),
]
ROWS = [(functools.partial(refused, line), name, value) for line, name, value in LINES]
