"""Small files that would take all memory, or all day: refused at once, by name."""

import gzip
import io
import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.hostile_files import FILES, WORD, npy_bytes, npz_bytes, with_twin
from helpers.processes import run_python
from helpers.readers import READERS
from helpers.vector_files import binary_of, check, points, text_of, write

import gwfast
from gwfast.words import EmbeddingsFileError, read_counts, read_dictionary, read_embeddings
from gwfast.words.files.source import LINE_BYTES

READ_ALL = """
import json, pathlib, re, sys, time
import gwfast
from gwfast.words import read_counts, read_dictionary, read_embeddings

def peak():
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) * 1024

folder = pathlib.Path({folder!r})
(folder / "fine.vec").write_text("a 1 2\\nb 3 4\\n")
read_embeddings(folder / "fine.vec")
for path in sorted(folder.iterdir()):
    for read in (read_embeddings, read_dictionary, read_counts, gwfast.Alignment.load):
        before, start, message = peak(), time.monotonic(), None
        try:
            read(path)
        except ValueError as error:
            message = str(error)
        seconds = time.monotonic() - start
        print(json.dumps([path.name, read.__name__, message, seconds, peak() - before]))
"""


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux's /proc")
def test_small_files_take_little(tmp_path):
    """Neither memory nor time, in any reader; 2.4 to 16.5 GB once."""
    for name, made in FILES.items():
        write(tmp_path / name, made())
        assert os.path.getsize(tmp_path / name) < 1 << 21
    done = run_python(READ_ALL.format(folder=str(tmp_path)))
    taken = 0
    for line in done.stdout.splitlines():
        name, _, message, seconds, growth = json.loads(line)
        if name != "fine.vec":
            assert message is not None, line
            assert str(tmp_path / Path(name).stem) in message, line
            assert len(message) < len(str(tmp_path)) + 400, line
        assert seconds < 60, line  # on a machine that does much else
        taken += growth
    assert taken < 300e6, done.stdout


# Those that take nothing before they are refused, and what is said of them.
CLAIMS = {
    "words.npz": r"'words' of shape \(1000000000,\) and <U0, got 0 bytes",
    "many.npz": r"'vectors' of shape \(1000000000000, 4\) and <f4, got 0 bytes",
    "columns.npz": r"'vectors' of shape \(1000000000000, 4\) and <f4, got 0 bytes",
    "rows.npz": r"'vectors' of shape \(1, 1000000000000\) and <f8, got 0 bytes",
    "alias.npz": "expected arrays of different names, got 'words' twice",
    "line.bz2": r"expected at most [0-9]+ bytes once unpacked .*, got more",
    "last_line.xz": r"xz:2: expected at most [0-9]+ bytes once unpacked .*, got more",
}


@pytest.mark.parametrize("name", CLAIMS)
def test_what_a_file_claims_is_checked(tmp_path, name):
    path = write(tmp_path / name, FILES[name]())
    with pytest.raises(EmbeddingsFileError, match=CLAIMS[name]) as caught:
        read_embeddings(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("descr, shape", [("<f4", (1, 4)), ("<f8", (2, 1))])
def test_vectors_that_are_not_all_there(tmp_path, descr, shape):
    """They came out as whatever was in memory."""
    words = npy_bytes(shape[:1], "<U1", "ab".encode("utf-32-le")[: 4 * shape[0]])
    content = npz_bytes(words=words, vectors=npy_bytes(shape, descr, b"\0" * 8))
    path = write(tmp_path / "v.npz", content)
    with pytest.raises(EmbeddingsFileError, match="got 8 bytes"):
        read_embeddings(path)


def test_long_lines_are_no_lines(tmp_path):
    """Whether first, within or at the end, and the line is named."""
    long = b"x" * (LINE_BYTES + (1 << 21))
    for content, line in (
        (long, 1), (b"a 1 2\n" * 40 + long, 41), (b"a 1 2\n" + long + b" 1 2\n", 2)
    ):  # fmt: skip
        path = write(tmp_path / "v", content)
        with pytest.raises(EmbeddingsFileError, match="lines of at most") as caught:
            read_embeddings(path)
        assert caught.value.line == line
    for content, line in ((long, 1), (b"a 1\n" * 40 + long, 41)):
        path = write(tmp_path / "v", content)
        for read in (read_counts, read_dictionary):
            with pytest.raises(EmbeddingsFileError, match="lines of at most") as caught:
                read(path)
            assert caught.value.line == line
    path = write(tmp_path / "v.bin", b"2 1\na 1234" + long)
    with pytest.raises(EmbeddingsFileError, match=r"words of at most .* in row 2"):
        read_embeddings(path)


# --- Archives -------------------------------------------------------------------------


@pytest.mark.parametrize("alias", [False, True])
@pytest.mark.parametrize(
    "reader, name, array",
    [
        ("npz", "plain.npz", "vectors"),
        ("npz", "plain.npz", "words"),
        # 64 MB were read of 66 kB once, as the budget was asked of another member.
        ("alignment", "plain.npz", "mapping"),
    ],
)
def test_an_array_that_is_there_twice(tmp_path, reader, name, array, alias):
    """Of the two members one was checked, and the other one read."""
    content = (Path(__file__).parent / "corpus" / reader / name).read_bytes()
    path = write(tmp_path / "file.npz", with_twin(content, array, alias=alias))
    with pytest.raises(ValueError, match=rf"different names, got '{array}' twice") as e:
        READERS[reader][1](path)
    assert str(path) in str(e.value)


# --- max_bytes ------------------------------------------------------------------------


def packed(words, vectors):
    made = io.BytesIO()
    np.savez_compressed(made, words=np.array(words), vectors=vectors)
    return made.getvalue()


MADE = {
    "v.vec": text_of,
    "v.bin": binary_of,
    "v.gz": lambda *parts: gzip.compress(text_of(*parts)),
    "v.npz": packed,
}


@pytest.mark.parametrize("name", MADE)
def test_max_bytes(tmp_path, name):
    """One keyword for all formats; what fits is read as without it."""
    words, vectors = [f"w{i}" for i in range(300)], points(300, 20)
    path = write(tmp_path / name, MADE[name](words, vectors))
    check(read_embeddings(path, max_bytes=1 << 17), words, vectors)
    pattern = re.escape(str(path)) + ".*expected at most 9999 bytes once unpacked"
    with pytest.raises(EmbeddingsFileError, match=pattern):
        read_embeddings(path, max_bytes=9999)


def test_max_bytes_of_an_array(tmp_path):
    np.save(tmp_path / "v.npy", points(3, 2))
    write(tmp_path / "v.words", b"a\nb\nc\n")
    assert len(read_embeddings(tmp_path / "v.npy", max_bytes=1000)) == 3
    with pytest.raises(EmbeddingsFileError, match="at most 20 bytes"):
        read_embeddings(tmp_path / "v.npy", max_bytes=20)


@pytest.mark.parametrize("read", [read_dictionary, read_counts])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_max_bytes_of_word_lists(tmp_path, read, compress):
    path = write(tmp_path / "d", compress(b"".join(b"w%d 1\n" % i for i in range(200))))
    assert read(path, max_bytes=1 << 14) == read(path)
    for max_bytes in (100, 2000):
        with pytest.raises(EmbeddingsFileError, match=f"at most {max_bytes} bytes"):
            read(path, max_bytes=max_bytes)


def test_max_bytes_is_checked(tmp_path):
    path = write(tmp_path / "d", b"a 1\n")
    for read in (read_dictionary, read_counts, read_embeddings):
        with pytest.raises(ValueError, match="max_bytes must be at least 1, got 0"):
            read(path, max_bytes=0)
        with pytest.raises(TypeError, match="max_bytes must be an integer, got float"):
            read(path, max_bytes=1e9)


def test_more_is_read_if_asked_for(tmp_path):
    """Numbers that are all alike shrink to next to nothing."""
    vectors = np.ones((1500, 4000), np.float32)
    content = packed([f"w{i}" for i in range(1500)], vectors)
    path = write(tmp_path / "v.npz", content)
    with pytest.raises(EmbeddingsFileError, match="max_bytes sets the limit"):
        read_embeddings(path)
    np.testing.assert_array_equal(read_embeddings(path, max_bytes=1 << 26).vectors, vectors)


def test_no_memory_names_the_file(tmp_path, monkeypatch):
    def none(*_):
        raise MemoryError

    path = write(tmp_path / "v", b"a 1 2\n")
    monkeypatch.setattr("gwfast.words.files.reading.read_text", none)
    with pytest.raises(MemoryError, match=re.escape(f"{path}: cannot be read")):
        read_embeddings(path)
    monkeypatch.setattr("gwfast.words.files.source.Source.lines", none)
    with pytest.raises(MemoryError, match=re.escape(f"{path}: cannot be read")):
        read_dictionary(path)


def test_a_kept_alignment_is_not_trusted_either(tmp_path):
    version = npy_bytes((), "<i8", (3).to_bytes(8, "little"))
    content = npz_bytes(
        gwfast_alignment=version,
        mapping=npy_bytes((10**12, 4), "<f4"),
        source_rows=npy_bytes((10**12, 4), "<f4"),
        source_steps=WORD,
    )
    path = write(tmp_path / "a", content)
    pattern = "damaged, or no .*of shape .1000000000000, 4. and <f4, got 0 bytes"
    with pytest.raises(ValueError, match=pattern):
        gwfast.Alignment.load(path)


# --- Pickles --------------------------------------------------------------------------


def test_nothing_writes_or_runs_a_pickle():
    """In the whole package; gensim loads its own."""
    forbidden = re.compile(
        r"^\s*(import|from) (c?[Pp]ickle|marshal|shelve|dill|cloudpickle)\b"
        r"|allow_pickle=True\b(?!\")|joblib\.(dump|load)|\.dump\(", re.MULTILINE
    )  # fmt: skip
    loads = re.compile(r"(np\.load|NpzFile)\((?P<arguments>[^()]*)\)")
    n_loads = 0
    for path in Path(gwfast.__file__).parent.rglob("*.py"):
        source = path.read_text("utf-8")
        assert not forbidden.search(source), path
        for call in loads.finditer(source):
            n_loads += 1
            assert "allow_pickle=False" in call["arguments"], path
    assert n_loads >= 4
