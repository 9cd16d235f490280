"""Vectors in files of every format and in memory: read, written, and read back."""

import gzip
import os
import tracemalloc

import numpy as np
import pytest
from helpers.processes import full_disk
from helpers.vector_files import (
    COMPRESS,
    ONE_PART,
    WORDS,
    binary_of,
    check,
    points,
    text_of,
    write,
    write_vectors,
)

from gwfast.words import Embeddings, read_embeddings, write_embeddings

WRITTEN = ["v.vec", "v.txt", "v.bin", "v.npz", "v.vec.gz", "v.txt.gz", "v.bin.gz"]


# The second are of several blocks of a megabyte.
MANY = [f"w{i}" if i % 5 else f"{i} {'york ' * (i % 35)}city" for i in range(12_000)]


@pytest.mark.parametrize("words", [WORDS, MANY], ids=len)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b" \n", b" \r\n", b"\r\r\n"])
def test_text(tmp_path, words, end):
    vectors = points(len(words), 8)
    for header in (True, False):
        path = write(tmp_path / "v.vec", text_of(words, vectors, header, end))
        check(read_embeddings(path), words, vectors)


@pytest.mark.parametrize("n_columns", [7, 100_000])  # of one block of a megabyte, and of four
def test_binary(tmp_path, n_columns):
    vectors = points(len(WORDS), n_columns)
    for end in (b"\n", b""):
        path = write(tmp_path / "v.bin", binary_of(ONE_PART, vectors, end))
        check(read_embeddings(path), ONE_PART, vectors)


@pytest.mark.parametrize(
    "dtype, order, kind, save",
    [
        ("f2", "F", str, np.savez_compressed),
        ("f4", "C", str, np.savez),
        ("f8", "F", bytes, np.savez),
        ("i4", "C", bytes, np.savez_compressed),
        (">f4", "C", str, np.savez),
    ],
)
def test_npz(tmp_path, dtype, order, kind, save):
    vectors = (points(len(WORDS), 4) * 8).astype(dtype, order)
    words = np.array(WORDS if kind is str else [word.encode() for word in WORDS])
    for name in ("v.npz", "vectors"):
        with open(tmp_path / name, "wb") as stream:
            save(stream, words=words, vectors=vectors)
        check(read_embeddings(tmp_path / name), WORDS, vectors.astype(np.float32))


@pytest.mark.parametrize("name", ["v.words", "v.txt", "other"])
def test_npy(tmp_path, name):
    np.save(tmp_path / "v.npy", points(len(WORDS), 4))
    words = write(tmp_path / name, "\r\n".join([*WORDS, ""]).encode())
    options = {"words": words} if name == "other" else {}
    check(read_embeddings(tmp_path / "v.npy", **options), WORDS, points(len(WORDS), 4))


@pytest.mark.parametrize("compress", [bytes, *COMPRESS.values()])
def test_content_decides_about_format_and_compression(tmp_path, compress):
    words, vectors = ["x\x01", "\x02", *"abcdef"], points(8, 30)
    for name in ("v.vec", "v", "v.vec.old", "v.gz", "v.bin", "v.bin.bz2", "v.bin.1", "v.w2v.xz"):
        for content in (text_of(words, vectors), binary_of(words, vectors)):
            check(read_embeddings(write(tmp_path / name, compress(content))), words, vectors)


@pytest.mark.parametrize(
    "name, content, words, vectors",
    [
        ("v", b"\xef\xbb\xbf2 2\na 1 2\nb 3 4\n", "ab", [[1, 2], [3, 4]]),
        ("v", b"\xef\xbb\xbfa 1 2\n\xef\xbb\xbfb 3 4\n", ["a", "\ufeffb"], [[1, 2], [3, 4]]),
        ("v", b"a 1 2\nb 3 4\n\n \r\n", "ab", [[1, 2], [3, 4]]),
        ("v", b"a 1 2\nb 3 4" + b"\n" * (1 << 20), "ab", [[1, 2], [3, 4]]),
        ("v", b"a 1 2\nb 3 4", "ab", [[1, 2], [3, 4]]),
        ("v", b"2 2\na x 1 2\nb x 3 4\n", ["a x", "b x"], [[1, 2], [3, 4]]),
        ("v", b"BZh9 1 2\n", ["BZh9"], [[1, 2]]),
        # Four digits are a number as text, and as float32.
        ("v.vec", b"1 1\na 1234", "a", [[1234]]),
        ("v.bin", b"1 1\na 1234", "a", [np.frombuffer(b"1234", "<f4")]),
    ],
)
def test_beginnings_and_ends(tmp_path, name, content, words, vectors):
    check(read_embeddings(write(tmp_path / name, content)), words, vectors)


def test_long_lines(tmp_path):
    """Lines exceed the 64 kB of the head and the blocks of a megabyte."""
    vectors = points(2, 60_000)
    text, without_header = (text_of("ab", vectors, header) for header in (True, False))
    for content in (text, without_header, binary_of("ab", vectors), gzip.compress(text, 1)):
        check(read_embeddings(write(tmp_path / "v", content)), "ab", vectors)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["v.vec", "v.bin", "v.npz", "v.gz"])
def test_memory_is_the_vectors_and_a_few_blocks(tmp_path, name):
    words, vectors = [f"w{i}" for i in range(4000)], np.round(points(4000, 1000), 3)
    path = write_vectors(tmp_path / name, words, vectors)
    if name == "v.gz":
        write(path, gzip.compress(text_of(words, vectors, header=False), 1))
    del words, vectors
    tracemalloc.start()
    embeddings = read_embeddings(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    words_bytes = 4000 * (60 + 8 + 110)  # str, tuple, and the dict at its largest
    assert peak < embeddings.vectors.nbytes + words_bytes + (12 << 20)


@pytest.mark.parametrize("name", ["v.vec", "v.bin", "v.npz", "v.npy"])
def test_the_first_row_of_a_word_is_kept(tmp_path, name):
    words = ["The", "the", "THE", "The", "Ünlü", "ünlü", "İ", "ß", "ẞ", "The", "a", "A", "a", "b"]
    vectors = points(len(words), 6)
    path = write_vectors(tmp_path / name, words, vectors)
    for lower in (False, True):
        for max_words in (None, 1, 3, 4, 50):
            first = {}
            for row, word in enumerate(words):
                if len(first) != max_words:
                    first.setdefault(word.lower() if lower else word, row)
                    n_read = row + 1
            embeddings = read_embeddings(path, lower=lower, max_words=max_words)
            check(embeddings, first, vectors[[*first.values()]])
            assert embeddings.n_duplicates == n_read - len(first)


@pytest.mark.parametrize("name", WRITTEN)
def test_written_vectors_have_the_same_bits_when_read(tmp_path, name):
    """Random bits are numbers of every size; of several blocks of rows."""
    bits = np.random.default_rng(0).integers(0, 2**32, (1000, 7), dtype=np.uint32)
    vectors = bits.view(np.float32)
    vectors[~np.isfinite(vectors)] = -0.0
    words = (*ONE_PART, *(f"{chr(0x400 + i)}\t" for i in range(1000 - len(ONE_PART))))
    write_embeddings(str(tmp_path / name), Embeddings(words, vectors))
    embeddings = read_embeddings(tmp_path / name)
    check(embeddings, words, vectors)
    np.testing.assert_array_equal(embeddings.vectors.view(np.uint32), vectors.view(np.uint32))
    write_embeddings(tmp_path / name, Embeddings(WORDS, vectors[:9]), space="_")
    words = WORDS if name == "v.npz" else ONE_PART
    check(read_embeddings(tmp_path / name), words, vectors[:9])


def test_content_of_written_files(tmp_path):
    vectors = np.array([[1, -0.5, 1e-9], [0.1, 3e38, 0]], np.float32)
    embeddings, path = Embeddings(("a", "é"), vectors), tmp_path / "v.vec"
    write_embeddings(path, embeddings)
    text = "2 3\na 1 -0.5 9.99999972e-10\né 0.100000001 3.00000001e+38 0\n".encode()
    assert path.read_bytes() == text
    write_embeddings(path, embeddings, precision=3)
    assert path.read_text("utf-8") == "2 3\na 1 -0.5 1e-09\né 0.1 3e+38 0\n"
    write_embeddings(path, embeddings, format="binary")
    rows = vectors[0].tobytes(), vectors[1].tobytes()
    assert path.read_bytes() == b"2 3\na %b\n\xc3\xa9 %b\n" % rows
    write_embeddings(path, embeddings, format="npz")
    with np.load(path) as arrays:
        assert arrays["words"].tolist() == ["a", "é"] and len(arrays) == 2
        np.testing.assert_array_equal(arrays["vectors"], vectors)
    write_embeddings(tmp_path / "v.vec.gz", embeddings)
    content = (tmp_path / "v.vec.gz").read_bytes()
    assert content[3:8] == bytes(5)  # neither a name nor a time
    assert gzip.decompress(content) == text


@pytest.mark.parametrize("format", ["text", "binary", "npz"])
def test_words_that_a_format_cannot_hold(tmp_path, format):
    for word in ("a b", "a\nb", "a\r", "a\0", "\ud800"):
        embeddings = Embeddings(("x", word), points(2, 30))
        if word == "\ud800" or (word == "a\0") == (format == "npz"):
            with pytest.raises(ValueError, match=format) as caught:
                write_embeddings(tmp_path / "w", embeddings, format=format)
            assert repr(word) in str(caught.value) and not (tmp_path / "w").exists()
        else:
            write_embeddings(tmp_path / "v", embeddings, format=format)
            check(read_embeddings(tmp_path / "v"), embeddings.words, embeddings.vectors)


@pytest.mark.parametrize("name", WRITTEN)
def test_a_full_disk_leaves_the_former_file(tmp_path, name):
    (tmp_path / name).write_text("before")
    with full_disk(1000), pytest.raises(OSError):
        write_embeddings(tmp_path / name, Embeddings(ONE_PART, points(9, 900)))
    assert os.listdir(tmp_path) == [name]
    assert (tmp_path / name).read_text() == "before"


def test_a_written_file_has_the_place_of_the_former_file(tmp_path):
    embeddings = Embeddings(ONE_PART, points(9, 3))
    (tmp_path / "plain").write_text("")
    (tmp_path / "link.vec").symlink_to("v.vec")
    write_embeddings(tmp_path / "link.vec", embeddings)
    assert (tmp_path / "link.vec").is_symlink()
    check(read_embeddings(tmp_path / "v.vec"), ONE_PART, embeddings.vectors)
    assert (tmp_path / "v.vec").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "folder.vec").mkdir()
    for error, name in ((IsADirectoryError, "folder.vec"), (FileNotFoundError, "none/v.vec")):
        with pytest.raises(error):
            write_embeddings(tmp_path / name, embeddings)
    write_embeddings(os.devnull, embeddings, format="text")
    assert not os.path.isfile(os.devnull)


def test_embeddings_of_lists_arrays_and_frames_and_with_counts():
    pandas = pytest.importorskip("pandas")
    vectors = points(len(WORDS), 5)
    frame = pandas.DataFrame(vectors, index=WORDS).astype("Float32")
    for embeddings in (
        Embeddings(WORDS, vectors),
        Embeddings(iter(WORDS), vectors.tolist()),
        Embeddings(np.array(WORDS), np.asfortranarray(vectors)),
        Embeddings(frame.index, frame),
        Embeddings(list(WORDS), vectors.astype(np.float64), np.arange(1, 10)),
    ):
        check(embeddings, WORDS, vectors)
        assert embeddings.n_duplicates == embeddings.n_undecodable == embeddings.n_skipped == 0
    assert embeddings.counts.dtype == np.float64
    assert np.shares_memory(Embeddings(WORDS, vectors).vectors, vectors)
    embeddings = Embeddings(("b", "a"), points(2, 3))
    assert repr(embeddings) == "Embeddings(2 words x 3, float32)"
    counted = embeddings.with_counts({"b": 1, "a": 5.0, "c": 9})
    assert counted.counts.dtype == np.float64 and counted.counts.tolist() == [1, 5]
    assert counted.vectors is embeddings.vectors
    assert repr(counted) == "Embeddings(2 words x 3, float32, with counts)"
