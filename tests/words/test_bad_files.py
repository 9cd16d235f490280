"""Files and rows that cannot be read: refused by name and line, or left out."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import re
import tracemalloc
import zipfile
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from helpers import readers
from helpers.hostile_files import FILES, WORD, npy_bytes, npz_bytes, zip_bytes
from helpers.marks import mostly_slow
from helpers.vector_files import COMPRESS, binary_of, check, points, text_of, write, write_vectors

import gwfast
from gwfast.words import EmbeddingsFileError, read_counts, read_dictionary, read_embeddings

CORPUS = Path(__file__).parent / "corpus"
PACKED = {"gzip": gzip, "bzip2": bz2, "xz": lzma}
FORMATS = pytest.mark.parametrize("name", ["v.vec", "v.bin", "v.npz", "v.npy"])


def refusal(path, read=read_embeddings, **options):
    """Return the error about a file; it names a file and perhaps its line, in one line."""
    with pytest.raises(EmbeddingsFileError) as caught:
        read(path, **options)
    error = caught.value
    where = f"{error.path}:" if error.line is None else f"{error.path}:{error.line}:"
    assert error.path.stem == path.stem
    assert str(error).startswith(where) and "\n" not in str(error) and len(str(error)) < 600
    return error


CUT = binary_of("ab", points(2, 3))[:-5]
LONG_TEXT = text_of([f"w{i}" for i in range(12_000)], points(12_000, 8), header=False)
ONE, NAMES = np.ones((2, 3)), np.array(["a", "b"])
# Half of a row; an archive may claim that it is whole.
HALF = npy_bytes((1, 4), "<f4", bytes(8))
SIZES = [(len(HALF) + n).to_bytes(4, "little") for n in (0, 8)]
muse, xling, zhang = (partial(read_dictionary, format=name) for name in ("muse", "xling", "zhang"))


def npz(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


# Reader, name, content, line of the error, and a part of its text: values, names, numbers.
NO_COUNTS = b"a", b"a x", b"a 0", b"a -1", b"a nan", b"a inf", b" 5", b"a 1 x"
UNREADABLE = [
    (read_embeddings, "v", b"", None, "0 bytes"),
    (read_embeddings, "v", b"2 3\n", 1, "2 rows .*got 0"),
    (read_embeddings, "v", b"0 3\n", None, "got none"),
    (read_embeddings, "v", b"2 0\n", 1, "columns, got 0"),
    (read_embeddings, "v", b"2 1000001\na 1\n", 1, "columns, got 1000001"),
    (read_embeddings, "v", b"hello\n", 1, "header .*'hello'"),
    (read_embeddings, "v", b"a\t1 2\n" * 3, 1, "header .*tab"),
    (read_embeddings, "v", b"2 2\ra 1 2\rb 3 4\r", 1, r"'2\\ra'"),
    (read_embeddings, "v", b"99999999999999999999 2\na 1 2\n", 2, "1 numbers"),
    # More rows than memory can hold.
    (read_embeddings, "v", b"9" * 15 + b" 1000\nw" + b" 1" * 1000 + b"\n", 1, "9" * 15),
    (read_embeddings, "v.bin", gzip.compress(b"9" * 15 + b" 1\nw 123", mtime=0), None, "9" * 15),
    (read_embeddings, "v", b"a 1 2\n" + b"\n" * (1 << 20) + b"b 1 2\n", 2, "got 0"),
    (read_embeddings, "v", LONG_TEXT + b"w\n", 12_001, "got 0"),
    (read_embeddings, "v", b"\xba\x16\x4f\x2f0123456789", None, "fastText"),
    (read_embeddings, "v", b"\x80\x04.", None, r"pickle.*\.kv or \.model"),
    (read_embeddings, "v.npz", b"a 1 2\n", None, r"\.npz"),
    (read_embeddings, "v.npy", b"a 1 2\n", None, r"\.npy"),
    (read_embeddings, "v.bin", b"abc def ghi\n", 1, "header"),
    (read_embeddings, "v.bin", b"1 1\n 1234\n", None, "row 1"),
    (read_embeddings, "v", npz(words=NAMES), None, "'vectors'"),
    (read_embeddings, "v", npz(words=NAMES.astype(object), vectors=ONE), None, "'words'.*objects"),
    (read_embeddings, "v", npz(words=np.arange(2), vectors=ONE), None, "'words'.*int64"),
    (read_embeddings, "v", npz(words=NAMES, vectors=ONE[:1]), None, "2 words for 1 rows"),
    (read_embeddings, "v", npz(words=NAMES, vectors=ONE[0]), None, r"'vectors'.*\(3,\)"),
    (read_embeddings, "v", npz(words=NAMES, vectors=ONE * 1j), None, "'vectors'.*complex128"),
    (read_embeddings, "v", npz(words=NAMES, vectors=ONE[:, :0]), None, r"'vectors'.*\(2, 0\)"),
    (read_embeddings, "v", npz_bytes(WORD, HALF), None, "8 bytes"),
    (read_embeddings, "v", npz_bytes(WORD, HALF).replace(*SIZES), None, "within a row"),
    (read_embeddings, "v", npz_bytes(WORD, npy_bytes((2, 1), "<f8", bytes(8))), None, "8 bytes"),
    (read_dictionary, "d", b"\n \n", None, "empty"),
    (read_dictionary, "d", b"a b\n\nc d e\n", 3, "'c d e'"),
    (read_dictionary, "d", b"a\tb\t\n", 1, "source target"),
    (read_dictionary, "d", b"a\t\n", 1, "source target"),
    (read_dictionary, "d", b"a b\nc \xff\n", 2, "0xff"),
    (muse, "d", b"a b\nc\n", 2, "'c'"),
    (muse, "d", b"a b\tc d\n", 1, r"'a b\\tc d'"),
    (xling, "d", b"a\tb\nc d\n", 2, "source<tab>target"),
    (xling, "d", b"a\tb\n\tc\n", 2, r"'\\tc'"),
    (xling, "d", b"a\tb\tc\n", 1, r"'a\\tb\\tc'"),
    (zhang, "d", b"a\n\nb\n", None, "none"),
    (read_counts, "f", b"\r\n", None, "empty"),
    *((read_counts, "f", b"ok 1\n%b\n" % x, 2, repr(x.decode().strip())) for x in NO_COUNTS),
]


@pytest.mark.parametrize("read, name, content, line, fact", UNREADABLE)
def test_content_that_cannot_be_read(tmp_path, read, name, content, line, fact):
    error = refusal(write(tmp_path / name, content), read)
    assert error.line == line
    assert re.search(fact, str(error))


def test_word_list_of_npy(tmp_path):
    np.save(tmp_path / "v.npy", points(3, 2))
    assert re.search(r"v\.words or v\.txt", str(refusal(tmp_path / "v.npy")))
    for words, line, fact in (
        (b"a\n\nb\n", 2, "blank"),
        (b"a\nb\n\xff\n", 3, "UTF-8"),
        (b"a\nb\n", None, "2 words for 3 rows"),
        (b"a\nb\nc\nd\n", None, "4 words for 3 rows"),
    ):
        write(tmp_path / "v.words", words)
        error = refusal(tmp_path / "v.npy")
        assert (error.path.name, error.line) == ("v.words" if line else "v.npy", line)
        assert fact in str(error)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_pipes_and_folders(tmp_path):
    """A pipe would be waited for without an end when it is opened again."""
    os.mkfifo(tmp_path / "v")
    assert "pipe" in str(refusal(tmp_path / "v"))
    with pytest.raises(OSError, match=re.escape(str(tmp_path))):
        read_embeddings(tmp_path)


PACKED_FILES = [("v.vec", "gzip"), ("v.vec", "xz"), ("v.bin", "bzip2")]


@pytest.mark.parametrize("name, compression", [*PACKED_FILES, ("v.npz", None), ("v.npy", None)])
def test_any_byte_may_be_missing_or_wrong(tmp_path, name, compression):
    """There is an error of ours, or the same vectors."""
    words, vectors = [f"w{i}" for i in range(30)], points(30, 4)
    path = write_vectors(tmp_path / name, words, vectors)
    whole = path.read_bytes()
    if compression:
        whole = COMPRESS[compression](whole)
    for position in range(0, len(whole), 13):
        error = str(refusal(write(path, whole[:position])))
        assert not compression or position < 14 or compression in error
        damaged = bytearray(whole)
        damaged[position] ^= 0x55
        try:
            embeddings = read_embeddings(write(path, damaged))
        except EmbeddingsFileError as error:
            assert str(error).startswith(str(path))
        else:
            assert embeddings.words == tuple(words)
            assert name == "v.npy" or (embeddings.vectors == vectors).all()


def test_cut_gzip_names_the_first_line_that_is_not_whole(tmp_path):
    """Stored blocks tell from outside where the text ends; an error before it comes first."""
    rows = text_of([f"w{i}" for i in range(100)], points(100, 3), header=False)
    n_lost = len(rows.split(b"\n", 60)[60])
    for text, line in ((rows, 60), (rows.replace(b"w7 ", b"w7 x"), 8)):
        cut = gzip.compress(text, compresslevel=0)[: -8 - n_lost - 3]  # within line 60
        assert refusal(write(tmp_path / "v", cut)).line == line


def test_max_words_leaves_the_rest_unread(tmp_path):
    path = write(tmp_path / "v.vec", b"9 2\na 1 2\nb 3 4\nnonsense\n")
    check(read_embeddings(path, max_words=2), "ab", [[1, 2], [3, 4]])
    assert read_embeddings(write(tmp_path / "v.bin", CUT), max_words=1).words == ("a",)
    # Files of several buffers and blocks.
    words, vectors = [f"w{i}" for i in range(5000)], points(5000, 80)
    content = gzip.compress(binary_of(words, vectors), 1)
    path = write(tmp_path / "v", content[:-5000])
    check(read_embeddings(path, max_words=99), words[:99], vectors[:99])
    vectors[4000] = np.nan
    path = write_vectors(tmp_path / "v.npz", words, vectors)
    check(read_embeddings(path, max_words=4000), words[:4000], vectors[:4000])
    assert "'w4000' in row 4000" in str(refusal(path))


@FORMATS
def test_words_that_are_not_utf8(tmp_path, name):
    words = ["uno", b"ni\xf1o", "dos", b"\xff", b"ni\xf1o", b"\xfe", "tres", "uno"]
    vectors = points(len(words), 6)
    path = write_vectors(tmp_path / name, words, vectors)
    error, line = refusal(path), {"v.vec": 3, "v.npy": 2}.get(name)
    assert (error.path.suffix, error.line) == (".words" if name == "v.npy" else name[1:], line)
    assert r"'ni\\xf1o'" in str(error) and "errors='replace'" in str(error)
    assert line or f"in row {2 if name == 'v.bin' else 1}" in str(error)
    replaced = ["uno", "ni\ufffdo", "dos", "\ufffd", "tres"]
    latin = ["uno", "niño", "dos", "ÿ", "þ", "tres"]
    for options, words, rows, n_undecodable, n_skipped, n_duplicates in (
        ({"errors": "skip"}, ["uno", "dos", "tres"], [0, 2, 6], 4, 4, 1),
        ({"errors": "strict", "max_words": 1}, ["uno"], [0], 0, 0, 0),
        ({"errors": "replace"}, replaced, [0, 1, 2, 3, 6], 4, 0, 3),
        ({"errors": "replace", "max_words": 2}, replaced[:2], [0, 1], 1, 0, 0),
        ({"encoding": "latin-1"}, latin, [0, 1, 2, 3, 5, 6], 0, 0, 2),
    ):
        embeddings = read_embeddings(path, **options)
        check(embeddings, words, vectors[rows])
        assert (embeddings.n_undecodable, embeddings.n_skipped) == (n_undecodable, n_skipped)
        assert embeddings.n_duplicates == n_duplicates


@FORMATS
def test_skipped_rows_in_every_format(tmp_path, name):
    """A good row follows of a word whose first row cannot be used."""
    vectors = np.array([[0, 0], [1, 2], [3, 4], [np.nan, 1], [5, 6]], np.float32)
    path = write_vectors(tmp_path / name, "abacd", vectors)
    assert re.search("'c'.*errors='skip'", str(refusal(path)))
    embeddings = read_embeddings(path, errors="skip")
    check(embeddings, "bad", vectors[[1, 2, 4]])
    assert (embeddings.n_skipped, embeddings.n_undecodable, embeddings.n_duplicates) == (2, 0, 0)
    assert read_embeddings(path, errors="skip", max_words=1).n_skipped == 1


# Rows of two numbers and what the error says of them; a row of zeros is no error.
UNUSABLE = {
    b"zu 0 0": None,
    b"zu nan 1": "'zu'",
    b"zu 1 -1e39": "'zu'",
    b"route 66 1 2": "one space, as in 'route 66'",
    b" 1 2": "no word",
    b"zu\t1\t2": "0 numbers.*tab",
    b"zu  1 2": "'zu '.*two",
    b"zu 1  2": "two",
    b"zu 1": "1 numbers",
    b"zu 1 x": "'x'",
    b"zu 1 1_0": "'1_0'",
    b"\n": "0 numbers",
}


@pytest.mark.parametrize("row, fact", UNUSABLE.items())
def test_rows_that_cannot_be_used(tmp_path, row, fact):
    """The line is named wherever it is; blank lines at the end are in order."""
    words, vectors = [f"w{i}" for i in range(23)], np.round(points(23, 2), 3)
    for header, position in ((False, 1), (True, 1), (False, 2), (True, 22)):
        lines = text_of(words, vectors, header=False).split(b"\n")
        rows = [b"24 2"] * header + [*lines[:position], row, *lines[position:]]
        path = write(tmp_path / "v.vec", b"\n".join(rows))
        if fact is None:
            assert len(read_embeddings(path)) == 24
        else:
            error = refusal(path)
            assert re.search(f"{fact}.*errors='skip'", str(error))
            assert error.line == position + 1 + header
        embeddings = read_embeddings(path, errors="skip")
        check(embeddings, words, vectors)
        assert embeddings.n_skipped == 1 + (row == b"\n")


def test_the_first_row_of_a_file_without_header_cannot_be_used(tmp_path):
    """The number of columns is the most frequent number."""
    for row in (b"new york 1 2", b"zu\t1\t2", b"zu 1", b"3\t2", b"3 2 2 2"):
        path = write(tmp_path / "v.vec", row + b"\nsol 1 2\nluna 3 4\nrey 5 6\n")
        embeddings = read_embeddings(path, errors="skip")
        assert embeddings.words[-3:] == ("sol", "luna", "rey")
        assert embeddings.n_skipped == (row != b"new york 1 2")
    path = write(tmp_path / "v.vec", b"1 2\n\xff 1 2\n")
    assert "1 rows were skipped" in str(refusal(path, errors="skip"))


@pytest.mark.parametrize("name", ["v.vec", "v.bin"])
def test_a_wrong_header_or_a_cut_row_can_be_skipped(tmp_path, name):
    vectors = points(3, 2)
    content = write_vectors(tmp_path / name, "abc", vectors).read_bytes()
    for n_rows, few, line in ((2, 2, 4), (4, 3, 1)):
        path = write(tmp_path / name, b"%d" % n_rows + content.removeprefix(b"3"))
        error = refusal(path)
        assert error.line == (line if name == "v.vec" else None)
        assert re.search(f"{n_rows} rows.*max_words={few} .*errors='skip'", str(error))
        check(read_embeddings(path, max_words=few), "abc"[:few], vectors[:few])
        check(read_embeddings(path, errors="skip"), "abc", vectors)
    embeddings = read_embeddings(write(tmp_path / "v.bin", CUT), errors="skip")
    assert (embeddings.words, embeddings.n_skipped) == (("a",), 1)


@pytest.mark.parametrize("name", mostly_slow(FILES, fast={*FILES} - {"rows.xz", "blank.xz"}))
def test_small_files_take_little_memory_in_any_reader(tmp_path, name):
    """2.4 to 16.5 GB once."""
    path = write(tmp_path / name, FILES[name]())
    assert path.stat().st_size < 1 << 21
    for read in (read_embeddings, read_dictionary, read_counts, gwfast.Alignment.load):
        tracemalloc.start()
        with pytest.raises(ValueError, match=re.escape(str(path.with_suffix("")))) as caught:
            read(path)
        assert len(str(caught.value)) < len(str(path)) + 400
        assert tracemalloc.get_traced_memory()[1] < 100e6
        tracemalloc.stop()


def changed(content, rng):
    """Return the bytes after random deletions, repetitions and replacements."""
    content = bytearray(content)
    for _ in range(rng.integers(1, 5)):
        at, n = rng.integers(len(content) + 1), rng.integers(1, 9)
        content[at : at + rng.integers(9)] = (rng.bytes(n), 2 * content[at : at + n])[n % 2]
    return bytes(content)


def variant(reader, content, rng):
    """Return a file with random changes, mostly of its unpacked content."""
    with contextlib.suppress(Exception):  # A damaged file cannot be unpacked.
        if reader in PACKED and rng.random() < 0.75:
            inside = PACKED[reader].decompress(content)
            return PACKED[reader].compress(changed(inside, rng))
        if reader in ("npz", "alignment") and rng.random() < 0.75:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                members = [[name, archive.read(name)] for name in archive.namelist()]
            member = members[rng.integers(len(members))]
            member[1] = changed(member[1], rng)
            return zip_bytes(*members)
    return changed(content, rng)


@pytest.mark.parametrize("reader", readers.READERS)
def test_any_content_gives_a_value_or_an_error_that_names_the_file(tmp_path, reader, seed):
    """Files that a fuzzer found, their halves, and random changes of the files of this reader."""
    rng, files = (
        np.random.default_rng(seed),
        sorted(path for path in CORPUS.rglob("*") if path.is_file()),
    )
    assert sum(path.stat().st_size for path in files) < 200_000
    for path in files:
        readers.read(reader, path.read_bytes()[: path.stat().st_size // 2], tmp_path)
        is_own = path.parent.name == reader and "bomb" not in path.name
        for _ in range(20 if is_own else 0):
            readers.read(reader, variant(reader, path.read_bytes(), rng), tmp_path)
    values = {path: readers.read(reader, path.read_bytes(), tmp_path) for path in files}
    assert any(value for path, value in values.items() if path.parent.name == reader)


def test_long_lines_and_arrays_that_are_there_twice_are_refused(tmp_path):
    for read, name, head, line in (
        (read_embeddings, "v", b"", 1),
        (read_embeddings, "v", b"a 1 2\n" * 40, 41),
        (read_embeddings, "v.bin", b"2 40\na " + b"1234" * 40, None),
        (read_counts, "v", b"a 1\n" * 40, 41),
    ):
        error = refusal(write(tmp_path / name, head + b"x" * (34 << 20)), read)
        assert error.line == line and "at most 33554432 bytes" in str(error)
    # 64 MB were read of 66 kB once: a member was checked, and another was read.
    for array, read in (("mapping", gwfast.Alignment.load), ("words", read_embeddings)):
        for twin in (array, f"{array}.npy"):
            content = zip_bytes((f"{array}.npy", WORD), ("vectors.npy", WORD), (twin, WORD))
            path = write(tmp_path / "file.npz", content)
            with pytest.raises(ValueError, match=f"{path}.*'{array}' twice"):
                read(path)


@pytest.mark.parametrize("name", ["v.vec", "v.bin", "v.npz", "v.npy", "v.gz"])
def test_max_bytes(tmp_path, name):
    """A file within the limit is read as without a limit."""
    words, vectors = [f"w{i}" for i in range(300)], points(300, 100)
    path = write_vectors(tmp_path / name, words, vectors)
    if name == "v.gz":
        write(path, gzip.compress(path.read_bytes()))
    check(read_embeddings(path, max_bytes=1 << 20), words, vectors)
    assert "at most 99999 bytes" in str(refusal(path, max_bytes=99_999))
    content = b"".join(b"w%d 1\n" % i for i in range(200))
    path = write(tmp_path / "d", gzip.compress(content) if name == "v.gz" else content)
    for read in (read_dictionary, read_counts):
        assert read(path, max_bytes=1 << 14) == read(path)
        for max_bytes in (100, 2000):
            assert f"at most {max_bytes} bytes" in str(refusal(path, read, max_bytes=max_bytes))


def test_ones_need_a_larger_max_bytes_and_a_short_row_counts_32_bytes(tmp_path):
    vectors, path = np.ones((1500, 4000), np.float32), tmp_path / "v.npz"
    np.savez_compressed(path, words=np.array([f"w{i}" for i in range(1500)]), vectors=vectors)
    assert "max_bytes" in str(refusal(path))
    np.testing.assert_array_equal(read_embeddings(path, max_bytes=1 << 26).vectors, vectors)
    path = write(tmp_path / "v", b"".join(b"w%d 1 1 1 1 1 1 1 1\n" % i for i in range(33_000)))
    assert path.stat().st_size < 3 << 18 and len(read_embeddings(path)) == 33_000
    assert f"at most {3 << 18} bytes" in str(refusal(path, max_bytes=3 << 18))


def test_no_memory_names_the_file(tmp_path, monkeypatch):
    path = write(tmp_path / "v", gzip.compress(b"a 1\n"))
    monkeypatch.setattr(gzip, "open", Mock(side_effect=MemoryError))
    for read in (read_embeddings, read_dictionary):
        with pytest.raises(MemoryError, match=str(path)):
            read(path)


def test_nothing_writes_or_runs_a_pickle():
    """In the whole package; gensim loads its own."""
    forbidden = r"^\s*(import|from) (c?[Pp]ickle|marshal|shelve|dill)\b|allow_pickle=True|\.dump\("
    for path in Path(gwfast.__file__).parent.rglob("*.py"):
        source = path.read_text("utf-8")
        assert not re.search(forbidden, source, re.MULTILINE), path
        for call in re.findall(r"(?:np\.load|NpzFile)\([^()]*\)", source):
            assert "allow_pickle=False" in call, path
