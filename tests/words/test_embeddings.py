"""Reading vectors: files of every format, and an error for every mistake."""

import bz2
import gzip
import lzma
import os
import tracemalloc

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.vector_files import WORDS, binary_of, check, points, text_of, write, write_as

from gwfast.words import EmbeddingsFileError, read_embeddings

FORMATS = pytest.mark.parametrize("name", ["v.vec", "v.bin", "v.npz", "v.npy"])
COMPRESS = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}
COMPRESSIONS = pytest.mark.parametrize("compression", COMPRESS)


def refusal(path, **options):
    """Return the error about a file, which names a file, perhaps its line, in one line."""
    with pytest.raises(EmbeddingsFileError) as caught:
        read_embeddings(path, **options)
    error = caught.value
    where = f"{error.path}:" if error.line is None else f"{error.path}:{error.line}:"
    assert error.path.stem == path.stem
    assert str(error).startswith(where) and "\n" not in str(error)
    return error


# --- Formats --------------------------------------------------------------------------


@pairwise(header=[True, False], end=["\n", "\r\n", " \r\n", "\r\r\n"], trail=["", " "])
def test_text(tmp_path, header, end, trail):
    vectors = points(len(WORDS), 5)
    path = write(tmp_path / "v.vec", text_of(WORDS, vectors, header, end, trail))
    check(read_embeddings(path), WORDS, vectors)


@pairwise(n=[1, 2, 1023, 1024, 1025, 50_000], header=[True, False])
def test_text_of_any_length(tmp_path, n, header):
    """Without a header the buffer grows as blocks of lines, of a megabyte, come."""
    words, vectors = [f"w{i}" for i in range(n)], points(n, 2)
    path = write(tmp_path / "v.txt", text_of(words, vectors, header))
    check(read_embeddings(path), words, vectors)


@pytest.mark.parametrize("end", [b"\n", b""])
@pytest.mark.parametrize("n_columns", [7, 100_000])  # of one block of a megabyte, and of four
def test_binary(tmp_path, end, n_columns):
    words = [word.replace(" ", "_") for word in WORDS]
    vectors = points(len(words), n_columns)
    path = write(tmp_path / "v.bin", binary_of(words, vectors, end))
    check(read_embeddings(path), words, vectors)


@pairwise(
    dtype=["f2", "f4", "f8", "i4", ">f4"],
    order=["C", "F"],
    encoded=[False, True],
    save=[np.savez, np.savez_compressed],
)
def test_npz(tmp_path, dtype, order, encoded, save):
    vectors = (points(len(WORDS), 4) * 8).astype(dtype, order)
    words = np.array([word.encode() if encoded else word for word in WORDS])
    for name in ("v.npz", "vectors"):
        with open(tmp_path / name, "wb") as stream:
            save(stream, words=words, vectors=vectors)
        check(read_embeddings(tmp_path / name), WORDS, vectors.astype(np.float32))


@pytest.mark.parametrize("name", ["v.words", "v.txt", "other"])
def test_npy(tmp_path, name):
    vectors = points(len(WORDS), 4)
    np.save(tmp_path / "v.npy", vectors)
    words = write(tmp_path / name, "\r\n".join([*WORDS, ""]).encode())
    given = words if name == "other" else None
    check(read_embeddings(tmp_path / "v.npy", words=given), WORDS, vectors)


@COMPRESSIONS
def test_compressed_under_any_name(tmp_path, compression):
    words, vectors = [f"w{i}" for i in range(30)], points(30, 20)
    for content, names in (
        (text_of(words, vectors), ("v.vec", "v", "v.vec.old", "v.gz", "v.xz")),
        (binary_of(words, vectors), ("v.bin", "v.bin.bz2", "v", "v.vec", "v.w2v.xz")),
    ):
        for name in names:
            path = write(tmp_path / name, COMPRESS[compression](content))
            check(read_embeddings(path), words, vectors)


@pytest.mark.parametrize("name", ["v.bin", "v.bin.1", "v", "v.vec"])
def test_content_decides_between_text_and_binary(tmp_path, name):
    words, vectors = ["x\x01", "\x02"], points(2, 30)
    for content in (text_of(words, vectors), binary_of(words, vectors)):
        check(read_embeddings(write(tmp_path / name, content)), words, vectors)


@pytest.mark.parametrize("name, content, words, vectors", [
    ("v", b"\xef\xbb\xbf2 2\na 1 2\nb 3 4\n", "ab", [[1, 2], [3, 4]]),
    ("v", b"\xef\xbb\xbfa 1 2\n\xef\xbb\xbfb 3 4\n", ["a", "\ufeffb"], [[1, 2], [3, 4]]),
    ("v", b"a 1 2\nb 3 4\n\n \r\n", "ab", [[1, 2], [3, 4]]),
    ("v", b"a 1 2\nb 3 4", "ab", [[1, 2], [3, 4]]),
    ("v", b"BZh9 1 2\n", ["BZh9"], [[1, 2]]),
    # Four digits are a number as text, and as float32.
    ("v.vec", b"1 1\na 1234", "a", [[1234]]),
    ("v.bin", b"1 1\na 1234", "a", [np.frombuffer(b"1234", "<f4")]),
])  # fmt: skip
def test_beginnings_and_ends(tmp_path, name, content, words, vectors):
    check(read_embeddings(write(tmp_path / name, content)), words, vectors)


# --- Files that are refused -----------------------------------------------------------

CUT = binary_of("ab", points(2, 3))[:-5]
# Name, content, line of the error, and its text.
BAD = [
    ("v", b"", None, "expected word vectors, got 0 bytes"),
    ("v", b"2 3\n", 1, "expected 2 rows as the header says, got 0"),
    ("v", b"0 3\n", None, "expected word vectors, got none"),
    ("v", b"2 0\n", 1, "expected 1 to 1000000 columns, got 0"),
    ("v", b"2 9999999999\na 1\n", 1, "expected 1 to 1000000 columns"),
    ("v", b"hello\n", 1, "expected the header 'n d' or a word vector"),
    ("v", b"a\t1\t2\n", 1, "expected the header 'n d' or a word vector"),
    ("v", b"\x00" * 100, 1, "expected the header"),
    ("v", b"\n\n", 1, "expected the header"),
    ("v", b"\xef\xbb\xbf", 1, "expected the header"),
    ("v", b"1 2\na\n", 2, "a word and 2 numbers, got 0 numbers"),
    ("v", b"1 2\na 1  2\n", 2, "a word and 2 numbers"),
    ("v", b"1 2\na 1 nan\n", 2, "expected finite numbers, got nan or inf for 'a'"),
    ("v", b"3 1\na 1\nb 2\n", 1, "expected 3 rows as the header says, got 2"),
    ("v", b"1 1\na 1\nb 2\n", 3, "expected the last of 1 rows, got more"),
    ("v", b"2 2\ra 1 2\rb 3 4\r", 1, r"got '2\ra'"),
    ("v", "2 2\na 1 2\n".encode("utf-16"), 1, "expected"),
    ("v", b"-1 2\na 1 2\n", 2, "expected a word and 1 numbers"),
    ("v", b"99999999999999999999 2\na 1 2\n", 2, "expected a word and 1 numbers"),
    ("v", b"9" * 5000 + b" 2\na 1 2\n", 2, "expected a word and 1 numbers"),
    ("v", b"\xba\x16\x4f\x2f0123456789", None, "got a fastText model"),
    ("v", b"\x80\x04.", None, "got a pickle; gensim's are read under a name in .kv or .model"),
    ("v.npz", b"a 1 2\n", None, "expected a NumPy .npz file"),
    ("v.npy", b"a 1 2\n", None, "expected a NumPy .npy file"),
    ("v.bin", CUT, None, "expected 2 rows, got the file's end in row 2; max_words=1"),
    ("v.bin", b"2 1\na 1234\nbb", None, "the file's end in row 2"),
    ("v.bin", binary_of("ab", points(2, 3)) + b"c", None, "expected 2 rows, got more bytes"),
    ("v.bin", b"abc def ghi\n", 1, "expected the header 'n d'"),
    ("v.bin", b"0 3\n", None, "expected word vectors, got none"),
    ("v.bin", b"1 1\n 1234\n", None, "expected a word in row 1"),
    ("v.bin", binary_of("a", np.array([[np.nan, 1]])), None, "got nan or inf for 'a' in row 1"),
    ("v.bin", b"1 1\n\xff 0000", None, "expected UTF-8"),
]


@pytest.mark.parametrize("name, content, line, message", BAD)
def test_malformed_text_and_binary(tmp_path, name, content, line, message):
    error = refusal(write(tmp_path / name, content))
    assert error.line == line
    assert message in str(error)


ONE, NAMES = np.ones((2, 3)), np.array(["a", "b"])


@pytest.mark.parametrize("words, vectors, message", [
    (NAMES, None, "expected arrays 'words' and 'vectors'"),
    (NAMES.astype(object), ONE, "save words.astype(str)"),
    (np.arange(2), ONE, "a 1-d array of strings"),
    (NAMES[None], ONE, "a 1-d array of strings"),
    (NAMES, ONE[:1], "got 2 words for 1 rows"),
    (NAMES, ONE[0], "a 2-d array of real numbers"),
    (NAMES, ONE * 1j, "a 2-d array of real numbers"),
    (NAMES, ONE[:, :0], "shape (2, 0)"),
    (NAMES[:0], ONE[:0], "got none"),
    (NAMES, ONE * [[1], [np.inf]], "inf for 'b' in row 1"),
    (NAMES, ONE * 1e39, "inf for 'a' in row 0"),
    (np.array([b"\xff", b"a"]), ONE, "UTF-8"),
])  # fmt: skip
def test_malformed_npz(tmp_path, words, vectors, message):
    arrays = {"words": words} if vectors is None else {"words": words, "vectors": vectors}
    np.savez(tmp_path / "v.npz", **arrays)
    assert message in str(refusal(tmp_path / "v.npz"))


@pytest.mark.parametrize("content, line, message", [
    (None, None, "v.words or v.txt beside it"),
    (b"a\n\nb\n", 2, "a blank line"),
    (b"a\nb\n\xff\n", 3, "expected UTF-8"),
    (b"a\nb\n", None, "got 2 words for 3 rows"),
])  # fmt: skip
def test_malformed_word_list(tmp_path, content, line, message):
    np.save(tmp_path / "v.npy", points(3, 2))
    if content is not None:
        write(tmp_path / "v.words", content)
    error = refusal(tmp_path / "v.npy")
    assert (error.path.name, error.line) == ("v.words" if line else "v.npy", line)
    assert message in str(error)


@pytest.mark.parametrize("options, error, message", [
    ({"max_words": 0}, ValueError, "max_words must be at least 1, got 0"),
    ({"max_words": 2.0}, TypeError, "max_words must be an integer, got float"),
    ({"words": "v.vec"}, ValueError, r"words is for \.npy files only"),
    ({"errors": "ignore"}, ValueError, r"\['replace', 'skip', 'strict'\], got 'ignore'"),
    *(
        ({"encoding": encoding}, ValueError, "encoding must be the name of")
        for encoding in ("utf-16", "hex", "none such", None)
    ),
])  # fmt: skip
def test_bad_arguments(tmp_path, options, error, message):
    path = write(tmp_path / "v.vec", b"a 1 2\n")
    with pytest.raises(error, match=message):
        read_embeddings(path, **options)
    with pytest.raises(FileNotFoundError, match=r"none\.vec"):
        read_embeddings(tmp_path / "none.vec")


def test_folder(tmp_path):
    with pytest.raises(OSError, match=r"[Dd]irectory|denied"):
        read_embeddings(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_pipe(tmp_path):
    """It would be waited for without an end, when it is opened again."""
    os.mkfifo(tmp_path / "v")
    assert "expected a regular file, got a pipe" in str(refusal(tmp_path / "v"))


# --- Damage ---------------------------------------------------------------------------


@pytest.mark.parametrize("name, compression", [
    *((name, compression) for name in ("v.vec", "v.bin") for compression in COMPRESS),
    ("v.npz", None), ("v.npy", None),
])  # fmt: skip
def test_cut_and_damaged_files(tmp_path, name, compression):
    """Any byte may be missing or wrong: an error of ours, or the same vectors."""
    words, vectors = [f"w{i}" for i in range(30)], points(30, 4)
    path = write_as(tmp_path / name, words, vectors)
    whole = path.read_bytes()
    if compression:
        whole = COMPRESS[compression](whole)
    for position in range(0, len(whole), 7):
        error = refusal(write(path, whole[:position]))
        if compression and position >= 14:
            assert f"expected whole {compression} data" in str(error)
        damaged = bytearray(whole)
        damaged[position] ^= 0x55
        try:
            found = read_embeddings(write(path, bytes(damaged)))
        except EmbeddingsFileError as error:
            assert str(error).startswith(str(path)) and "\n" not in str(error)
        else:
            assert found.words == tuple(words)
            assert name == "v.npy" or (found.vectors == vectors).all()


def test_cut_gzip_names_the_first_line_that_is_not_whole(tmp_path):
    """Stored blocks tell from outside where the text ends; an error before it comes first."""
    rows = text_of([f"w{i}" for i in range(100)], points(100, 3), header=False)
    n_lost = len(rows.split(b"\n", 60)[60])
    for text, line, message in (
        (rows, 60, "whole gzip data"), (rows.replace(b"w7 ", b"w7 x"), 8, "a word and 3 numbers")
    ):  # fmt: skip
        cut = gzip.compress(text, compresslevel=0)[: -8 - n_lost - 3]  # within line 60
        error = refusal(write(tmp_path / "v", cut))
        assert error.line == line and message in str(error)


# --- max_words, duplicates and case ---------------------------------------------------


@FORMATS
def test_first_of_duplicates_is_kept(tmp_path, name):
    vectors = points(6, 3)
    path = write_as(tmp_path / name, "abacba", vectors)
    for max_words, n_duplicates in ((None, 3), (1, 0), (2, 0), (3, 1), (4, 3), (99, 3)):
        embeddings = read_embeddings(path, max_words=max_words)
        check(embeddings, "abc"[:max_words], vectors[[0, 1, 3]][:max_words])
        assert embeddings.n_duplicates == n_duplicates


def test_max_words_leaves_the_rest_unread(tmp_path):
    """Also in compressed files of several buffers of 256 kB."""
    path = write(tmp_path / "v.vec", b"9 2\na 1 2\nb 3 4\nnonsense\n")
    check(read_embeddings(path, max_words=2), "ab", [[1, 2], [3, 4]])
    assert read_embeddings(write(tmp_path / "v.bin", CUT), max_words=1).words == ("a",)
    words, vectors = [f"w{i}" for i in range(5000)], points(5000, 80)
    for made in (text_of, binary_of):
        path = write(tmp_path / "v", gzip.compress(made(words, vectors), 1)[:-5000])
        check(read_embeddings(path, max_words=99), words[:99], vectors[:99])
        assert "whole gzip data" in str(refusal(path))
    vectors[4000] = np.nan
    np.savez(tmp_path / "v.npz", words=np.array(words), vectors=vectors)
    found = read_embeddings(tmp_path / "v.npz", max_words=4000)
    check(found, words[:4000], vectors[:4000])
    assert "'w4000' in row 4000" in str(refusal(tmp_path / "v.npz"))


CASED = ["The", "the", "THE", "Ünlü", "ünlü", "İ", "ß", "ẞ", "a", "A", "b"]


@FORMATS
def test_lower(tmp_path, name):
    """MUSE's rule: a word goes by `word.lower()`, and its first row is kept."""
    vectors = points(len(CASED), 6)
    path = write_as(tmp_path / name, CASED, vectors)
    check(read_embeddings(path), CASED, vectors)
    for max_words in (None, 1, 2, 4, 50):
        first = {}
        for row, word in enumerate(CASED):
            if len(first) != max_words:
                first.setdefault(word.lower(), row)
                n_read = row + 1
        found = read_embeddings(path, lower=True, max_words=max_words)
        check(found, first, vectors[list(first.values())])
        assert found.n_duplicates == n_read - len(first)


# --- Rows that cannot be used ---------------------------------------------------------

BROKEN = ["uno", b"ni\xf1o", "dos", b"\xff", b"ni\xf1o", b"\xfe", "tres", "uno"]


@FORMATS
def test_not_utf8(tmp_path, name):
    vectors = points(len(BROKEN), 6)
    path = write_as(tmp_path / name, BROKEN, vectors)
    error = refusal(path)
    line = {"v.vec": 3, "v.npy": 2}.get(name)
    assert error.line == line
    assert error.path == (path.with_suffix(".words") if name == "v.npy" else path)
    assert "expected UTF-8, got 'ni\\\\xf1o'" in str(error)
    assert "errors='replace' or 'skip' reads on" in str(error)
    assert line or f"in row {2 if name == 'v.bin' else 1}" in str(error)

    found = read_embeddings(path, errors="skip")
    check(found, ["uno", "dos", "tres"], vectors[[0, 2, 6]])
    assert (found.n_undecodable, found.n_skipped, found.n_duplicates) == (4, 4, 1)

    found = read_embeddings(path, errors="replace")
    words = ["uno", "ni\ufffdo", "dos", "\ufffd", "tres"]
    check(found, words, vectors[[0, 1, 2, 3, 6]])
    assert (found.n_undecodable, found.n_skipped, found.n_duplicates) == (4, 0, 3)

    found = read_embeddings(path, errors="replace", max_words=2)
    assert (found.words, found.n_undecodable) == (("uno", "ni\ufffdo"), 1)
    for errors in ("strict", "skip"):
        assert read_embeddings(path, errors=errors, max_words=1).words == ("uno",)

    found = read_embeddings(path, encoding="latin-1")
    assert found.words[1:3] == ("niño", "dos") and found.n_undecodable == 0


# Rows of two numbers and the error about them; a row of zeros is no error.
UNUSABLE = {
    b"zu 0 0": None,
    b"zu nan 1": "finite numbers, got nan or inf for 'zu'",
    b"zu 1 -1e39": "finite numbers, got nan or inf for 'zu'",
    b"route 66 1 2": "got more numbers; the separator is one space, as in 'route 66'",
    b" 1 2": "got no word",
    b"zu\t1\t2": "got 0 numbers; the separator is one space, not a tab",
    b"zu\t1 2": "got 1 numbers; the separator is one space, not a tab",
    b"zu  1 2": "got 'zu '; the separator is one space, not two",
    b"zu 1  2": "; the separator is one space, not two",
    b"zu 1": "got 1 numbers",
    b"zu 1 x": "got 'x'",
    b"zu 1 1_0": "got '1_0'",
    b"zu 1 0x1p3": "got '0x1p3'",
    b"zu 1 0,5": "got '0,5'",
    b"": "got 0 numbers",
    b"\n": "got 0 numbers",
}


@pytest.mark.parametrize("row", UNUSABLE)
@pytest.mark.parametrize("header", [False, True])
def test_rows_that_cannot_be_used(tmp_path, row, header):
    """The line is named wherever it is, but for blank lines, which are in order at the end."""
    words, vectors = [f"w{i}" for i in range(23)], np.round(points(23, 2), 3)
    lines = text_of(words, vectors, header).split(b"\n")[header:]
    for position in (1, 2, 11, 22):
        rows = [b"24 2"] * header + [*lines[:position], row, *lines[position:]]
        path = write(tmp_path / "v.vec", b"\n".join(rows))
        if UNUSABLE[row] is None:
            assert len(read_embeddings(path)) == 24
        else:
            error = refusal(path)
            assert UNUSABLE[row] in str(error)
            assert "errors='skip' leaves such rows out" in str(error)
            assert error.line == position + 1 + header
        found = read_embeddings(path, errors="skip")
        check(found, words, vectors)
        assert found.n_skipped == 1 + (row == b"\n")


def test_the_first_row_of_a_file_without_header_cannot_be_used(tmp_path):
    """The number of columns is the most frequent number."""
    for row in (b"new york 1 2", b"zu\t1\t2", b"zu 1", b"3\t2", b"3 2 2 2"):
        path = write(tmp_path / "v.vec", row + b"\nsol 1 2\nluna 3 4\nrey 5 6\n")
        found = read_embeddings(path, errors="skip")
        assert found.words[-3:] == ("sol", "luna", "rey")
        assert found.n_skipped == (row != b"new york 1 2")
    for row in (b"sol\t1\t2\n", b"sol\t1 2\n"):
        path = write(tmp_path / "v.vec", 3 * row)
        assert "one space, not a tab" in str(refusal(path, errors="skip"))
    path = write(tmp_path / "v.vec", b"1 2\n\xff 1 2\n")
    assert "got none (1 rows were skipped)" in str(refusal(path, errors="skip"))


@pytest.mark.parametrize("name", ["v.vec", "v.bin"])
@pytest.mark.parametrize("n_rows", [2, 4])
def test_a_header_with_a_wrong_number_of_rows(tmp_path, name, n_rows):
    vectors = points(3, 2)
    content = (binary_of if name == "v.bin" else text_of)(list("abc"), vectors)
    path = write(tmp_path / name, b"%d" % n_rows + content.removeprefix(b"3"))
    few = min(n_rows, 3)
    assert f"; max_words={few} or errors='skip'" in str(refusal(path))
    check(read_embeddings(path, max_words=few), "abc"[:few], vectors[:few])
    check(read_embeddings(path, errors="skip"), "abc", vectors)


def test_a_cut_row_is_skipped(tmp_path):
    found = read_embeddings(write(tmp_path / "v.bin", CUT), errors="skip")
    assert (found.words, found.n_skipped) == (("a",), 1)


@FORMATS
def test_skipped_rows_in_every_format(tmp_path, name):
    """A good row follows of a word whose first row cannot be used."""
    words = ["a", "b", "a", "c", "d"]
    vectors = np.array([[0, 0], [1, 2], [3, 4], [np.nan, 1], [5, 6]], np.float32)
    path = write_as(tmp_path / name, words, vectors)
    error = str(refusal(path))
    assert "for 'c'" in error and "errors='skip' leaves such rows" in error
    found = read_embeddings(path, errors="skip")
    check(found, ["b", "a", "d"], vectors[[1, 2, 4]])
    assert (found.n_skipped, found.n_undecodable, found.n_duplicates) == (2, 0, 0)
    assert read_embeddings(path, errors="skip", max_words=1).n_skipped == 1


# --- Lines ----------------------------------------------------------------------------


def test_lines_of_several_blocks(tmp_path):
    """Rows follow blocks of a megabyte, wherever these end; a line that is wrong is named."""
    words = [f"w{i}" if i % 5 else f"{i} {'york ' * (i % 35)}city" for i in range(30_000)]
    vectors = points(30_000, 2)
    path = write(tmp_path / "v", text_of(words, vectors, header=False))
    check(read_embeddings(path), words, vectors)
    path.write_bytes(path.read_bytes() + b"w 1\n")
    assert refusal(path).line == 30_001


@pytest.mark.parametrize("n_blank", [0, 1, 2, 40, 1 << 20])
def test_lines_after_blank_ones(tmp_path, n_blank):
    rows = b"a 1 2\n" * 3 + b"\n" * n_blank
    check(read_embeddings(write(tmp_path / "v", rows)), "a", [[1, 2]])
    if n_blank:
        assert refusal(write(tmp_path / "v", rows + b"b 1 2\n")).line == 4


@pytest.mark.parametrize("name", ["v.vec", "v", "v.bin", "v.gz"])
def test_long_lines(tmp_path, name):
    """Longer than the 64 kB looked at in advance, and than blocks of a megabyte."""
    vectors = points(3, 60_000)
    contents = [binary_of("abc", vectors)]
    if name != "v.bin":
        contents += [text_of("abc", vectors, header) for header in (True, False)]
    for content in contents:
        if name == "v.gz":
            content = gzip.compress(content, 1)
        check(read_embeddings(write(tmp_path / name, content)), "abc", vectors)


def test_words_with_spaces(tmp_path):
    """Also where lines have the same number of fields, but not a field for each column."""
    some = [f"new {'york ' * (i % 3)}city" if i % 4 else "w" for i in range(50)]
    for words in ([f"{i}{word}" for i, word in enumerate(some)], ["a x", "b x", "c x"]):
        vectors = points(len(words), 4)
        path = write(tmp_path / "v.vec", text_of(words, vectors))
        check(read_embeddings(path), words, vectors)


# --- Memory ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["v.vec", "v.bin"])
def test_a_header_of_more_rows_than_memory_is_no_harm(tmp_path, name):
    plain = b"9" * 15 + b" 1000\nw" + b" 1" * 1000 + b"\n"
    for content in (plain, gzip.compress(plain)):
        assert "expected " + "9" * 15 + " rows" in str(refusal(write(tmp_path / name, content)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["text", "no header", "gzip", "binary", "npz"])
def test_memory(tmp_path, kind):
    """The peak is the vectors and a few blocks of megabytes."""
    words, vectors = [f"w{i}" for i in range(8000)], np.round(points(8000, 1000), 3)
    if kind == "npz":
        path = tmp_path / "v.npz"
        np.savez(path, words=np.array(words), vectors=vectors.astype(np.float64))
    elif kind == "binary":
        path = write(tmp_path / "v.bin", binary_of(words, vectors))
    else:
        text = text_of(words, vectors, header=kind != "no header")
        path = write(tmp_path / "v.vec", gzip.compress(text, 1) if kind == "gzip" else text)
    del words, vectors
    tracemalloc.start()
    try:
        embeddings = read_embeddings(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    words_bytes = 8000 * (60 + 8 + 110)  # str, tuple, and the dict at its largest
    assert peak < embeddings.vectors.nbytes + words_bytes + (12 << 20)
