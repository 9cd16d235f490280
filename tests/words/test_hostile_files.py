"""Small files that would take all memory, or all day: refused at once, by name."""

import gzip
import json
import os
import re
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.hostile_files import FILES, WORD, npy_bytes, npz_bytes, with_twin
from helpers.processes import run_python
from helpers.readers import READERS
from helpers.vector_files import check, points, write, write_as

import gwfast
from gwfast.words import EmbeddingsFileError, read_counts, read_dictionary, read_embeddings

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


# Files that take nothing before they are refused, and the message.
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
    words = npy_bytes(shape[:1], "<U1", "ab".encode("utf-32-le")[: 4 * shape[0]])
    vectors = npy_bytes(shape, descr, b"\0" * 8)
    content = npz_bytes(words=words, vectors=vectors)
    with pytest.raises(EmbeddingsFileError, match="got 8 bytes"):
        read_embeddings(write(tmp_path / "v.npz", content))
    # The archive claims that they are there.
    size, more = (struct.pack("<I", len(vectors) + n) for n in (0, 8))
    with pytest.raises(EmbeddingsFileError, match=r"expected|cannot be read"):
        read_embeddings(write(tmp_path / "v.npz", content.replace(size, more)))


LONG = b"x" * (34 << 20)  # lines may have 32 MiB


@pytest.mark.parametrize("read, content, line", [
    (read_embeddings, (b"", LONG), 1),
    (read_embeddings, (b"a 1 2\n" * 40, LONG), 41),
    (read_embeddings, (b"a 1 2\n", LONG, b" 1 2\n"), 2),
    (read_embeddings, (b"2 40\na " + b"1234" * 40, LONG), None),
    (read_counts, (b"", LONG), 1),
    (read_counts, (b"a 1\n" * 40, LONG), 41),
    (read_dictionary, (b"a 1\n" * 40, LONG), 41),
])  # fmt: skip
def test_long_lines_are_no_lines(tmp_path, read, content, line):
    path = write(tmp_path / ("v" if line else "v.bin"), b"".join(content))
    message = "lines of at most" if line else "words of at most .* in row 2"
    with pytest.raises(EmbeddingsFileError, match=message) as caught:
        read(path)
    assert caught.value.line == line


@pytest.mark.parametrize("alias", [False, True])
@pytest.mark.parametrize("reader, array", [
    ("npz", "vectors"), ("npz", "words"),
    # 64 MB were read of 66 kB once, as the budget was asked of another member.
    ("alignment", "mapping"),
])  # fmt: skip
def test_an_array_that_is_there_twice(tmp_path, reader, array, alias):
    """The check must be of the member that is read."""
    content = (Path(__file__).parent / "corpus" / reader / "plain.npz").read_bytes()
    path = write(tmp_path / "file.npz", with_twin(content, array, alias=alias))
    with pytest.raises(ValueError, match=rf"different names, got '{array}' twice") as e:
        READERS[reader][1](path)
    assert str(path) in str(e.value)


# --- max_bytes ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["v.vec", "v.bin", "v.npz", "v.npy", "v.gz"])
def test_max_bytes(tmp_path, name):
    """A file within the limit is read as without a limit."""
    words, vectors = [f"w{i}" for i in range(300)], points(300, 100)
    path = write_as(tmp_path / name, words, vectors)
    if name == "v.gz":
        write(path, gzip.compress(path.read_bytes()))
    check(read_embeddings(path, max_bytes=1 << 20), words, vectors)
    pattern = re.escape(str(path)) + ".*expected at most 99999 bytes once unpacked"
    with pytest.raises(EmbeddingsFileError, match=pattern):
        read_embeddings(path, max_bytes=99_999)


def test_a_short_row_counts_32_bytes(tmp_path):
    path = write(tmp_path / "v", b"".join(b"w%d 1\n" % i for i in range(300_000)))
    assert len(read_embeddings(path)) == 300_000
    with pytest.raises(EmbeddingsFileError, match=f"at most {3 << 20} bytes"):
        read_embeddings(path, max_bytes=3 << 20)


@pytest.mark.parametrize("read", [read_dictionary, read_counts])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_max_bytes_of_word_lists(tmp_path, read, compress):
    path = write(tmp_path / "d", compress(b"".join(b"w%d 1\n" % i for i in range(200))))
    assert read(path, max_bytes=1 << 14) == read(path)
    for max_bytes in (100, 2000):
        with pytest.raises(EmbeddingsFileError, match=f"at most {max_bytes} bytes"):
            read(path, max_bytes=max_bytes)


@pytest.mark.parametrize("read", [read_dictionary, read_counts, read_embeddings])
def test_max_bytes_is_checked(tmp_path, read):
    path = write(tmp_path / "d", b"a 1\n")
    with pytest.raises(ValueError, match="max_bytes must be at least 1, got 0"):
        read(path, max_bytes=0)
    with pytest.raises(TypeError, match="max_bytes must be an integer, got float"):
        read(path, max_bytes=1e9)


def test_more_is_read_if_asked_for(tmp_path):
    """Equal numbers shrink to next to nothing."""
    vectors, path = np.ones((1500, 4000), np.float32), tmp_path / "v.npz"
    np.savez_compressed(path, words=np.array([f"w{i}" for i in range(1500)]), vectors=vectors)
    with pytest.raises(EmbeddingsFileError, match="max_bytes sets the limit"):
        read_embeddings(path)
    np.testing.assert_array_equal(read_embeddings(path, max_bytes=1 << 26).vectors, vectors)


@pytest.mark.parametrize("read", [read_embeddings, read_dictionary])
def test_no_memory_names_the_file(tmp_path, monkeypatch, read):
    def none(*_):
        raise MemoryError

    path = write(tmp_path / "v", gzip.compress(b"a 1\n"))
    monkeypatch.setattr(gzip, "open", none)
    with pytest.raises(MemoryError, match=re.escape(f"{path}: cannot be read: out of memory")):
        read(path)


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
