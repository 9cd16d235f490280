"""Reading vectors: round trips in every format, and an error for every mistake."""

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.vector_files import WORDS, binary_of, check, points, text_of, write, write_as

from gwfast.words import Embeddings, EmbeddingsFileError, read_embeddings


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


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, ">f4"])
def test_npz(tmp_path, dtype):
    vectors = (points(len(WORDS), 4) * 8).astype(dtype)
    np.savez(tmp_path / "v.npz", words=np.array(WORDS), vectors=vectors)
    check(read_embeddings(tmp_path / "v.npz"), WORDS, vectors.astype(np.float32))


def test_npz_of_bytes_and_fortran_order(tmp_path):
    words = np.array([word.encode() for word in WORDS])
    vectors = np.asfortranarray(points(len(WORDS), 4))
    np.savez_compressed(tmp_path / "v.npz", words=words, vectors=vectors)
    check(read_embeddings(tmp_path / "v.npz"), WORDS, vectors)


@pytest.mark.parametrize("name", ["v.words", "v.txt", "other"])
def test_npy(tmp_path, name):
    vectors = points(len(WORDS), 4)
    np.save(tmp_path / "v.npy", vectors)
    words = write(tmp_path / name, "\r\n".join([*WORDS, ""]).encode())
    given = words if name == "other" else None
    check(read_embeddings(tmp_path / "v.npy", words=given), WORDS, vectors)


def test_the_content_decides_where_the_name_is_silent(tmp_path):
    vectors = points(3, 2)
    with open(tmp_path / "vectors", "wb") as stream:
        np.savez(stream, words=np.array(["a", "b", "c"]), vectors=vectors)
    check(read_embeddings(str(tmp_path / "vectors")), "abc", vectors)


@pytest.mark.parametrize("content", [
    b"\xef\xbb\xbf2 2\na 1 2\nb 3 4\n",
    b"a 1 2\nb 3 4\n\n \r\n",
    b"a 1 2\nb 3 4",
])  # fmt: skip
def test_beginnings_and_ends_of_text(tmp_path, content):
    path = write(tmp_path / "v.vec", content)
    check(read_embeddings(path), "ab", [[1, 2], [3, 4]])


@pytest.mark.parametrize("name", ["v.npz", "v.npy", "v.vec", "v.bin"])
def test_first_of_duplicates_is_kept(tmp_path, name):
    vectors = points(6, 3)
    path = write_as(tmp_path / name, "abacba", vectors)
    for max_words, n_duplicates in ((None, 3), (1, 0), (2, 0), (3, 1), (4, 3), (99, 3)):
        embeddings = read_embeddings(path, max_words=max_words)
        check(embeddings, "abc"[:max_words], vectors[[0, 1, 3]][:max_words])
        assert embeddings.n_duplicates == n_duplicates


def test_max_words_leaves_the_rest_unread(tmp_path):
    path = write(tmp_path / "v.vec", b"9 2\na 1 2\nb 3 4\nnonsense\n")
    check(read_embeddings(path, max_words=2), "ab", [[1, 2], [3, 4]])
    path = write(tmp_path / "v.bin", binary_of("ab", points(2, 3))[:-5])
    assert read_embeddings(path, max_words=1).words == ("a",)


BAD = {
    "empty": (b"", None, "expected word vectors, got 0 bytes"),
    "header only": (b"2 3\n", 1, "expected 2 rows as the header says, got 0"),
    "header of nothing": (b"0 3\n", None, "expected word vectors, got none"),
    "no dimension": (b"2 0\n", 1, "expected 1 to 1000000 columns, got 0"),
    "huge dimension": (b"2 9999999999\na 1\n", 1, "expected 1 to 1000000 columns"),
    "one field": (b"hello\n", 1, "expected the header 'n d' or a word vector"),
    "tabs": (b"a\t1\t2\n", 1, "expected the header 'n d' or a word vector"),
    "word only": (b"1 2\na\n", 2, "a word and 2 numbers, got 0 numbers"),
    "two spaces": (b"1 2\na 1  2\n", 2, "a word and 2 numbers"),
    "nan": (b"1 2\na 1 nan\n", 2, "expected finite numbers, got nan or inf for 'a'"),
    "fewer rows": (b"3 1\na 1\nb 2\n", 1, "expected 3 rows as the header says, got 2"),
    "more rows": (b"1 1\na 1\nb 2\n", 3, "expected the last of 1 rows, got more"),
    "fastText model": (b"\xba\x16\x4f\x2f0123456789", None, "got a fastText model"),
}
BAD_BINARY = {
    "cut": (binary_of("ab", points(2, 3))[:-5], "expected 2 rows, got the file's end"),
    "cut in a word": (b"2 1\na 1234\nbb", "the file's end in row 2"),
    "more": (binary_of("ab", points(2, 3)) + b"c", "expected 2 rows, got more bytes"),
    "no header": (b"abc def ghi\n", "expected the header 'n d'"),
    "no rows": (b"0 3\n", "expected word vectors, got none"),
    "no word": (b"1 1\n 1234\n", "expected a word in row 1"),
    "nan": (binary_of("a", np.array([[np.nan, 1]])), "got nan or inf for 'a'"),
    "not UTF-8": (b"1 1\n\xff 0000", "expected UTF-8"),
}
CASES = [("v.vec", *case) for case in BAD.values()]
CASES += [("v.bin", content, ..., said) for content, said in BAD_BINARY.values()]


@pytest.mark.parametrize("name, content, line, message", CASES, ids=[*BAD, *BAD_BINARY])
def test_malformed_text_and_binary(tmp_path, name, content, line, message):
    path = write(tmp_path / name, content)
    with pytest.raises(EmbeddingsFileError) as caught:
        read_embeddings(path)
    error = caught.value
    assert error.path == path
    assert line is ... or error.line == line
    where = f"{path}:" if error.line is None else f"{path}:{error.line}:"
    assert str(error).startswith(where)
    assert message in str(error)
    assert "\n" not in str(error)


ONE = np.ones((2, 3))
NAMES = np.array(["a", "b"])
BAD_NPZ = {
    "no vectors": ({"words": NAMES}, "expected arrays 'words' and 'vectors'"),
    "objects": ({"words": NAMES.astype(object), "vectors": ONE}, "save words.astype(str)"),
    "numbers": ({"words": np.arange(2), "vectors": ONE}, "a 1-d array of strings"),
    "2-d words": ({"words": NAMES[None], "vectors": ONE}, "a 1-d array of strings"),
    "lengths": ({"words": NAMES, "vectors": ONE[:1]}, "got 2 words for 1 rows"),
    "1-d": ({"words": NAMES, "vectors": ONE[0]}, "a 2-d array of real numbers"),
    "complex": ({"words": NAMES, "vectors": ONE * 1j}, "a 2-d array of real numbers"),
    "no columns": ({"words": NAMES, "vectors": ONE[:, :0]}, "shape (2, 0)"),
    "no rows": ({"words": NAMES[:0], "vectors": ONE[:0]}, "got none"),
    "nan": ({"words": NAMES, "vectors": ONE * [[1], [np.inf]]}, "inf for 'b' in row 1"),
    "too large": ({"words": NAMES, "vectors": ONE * 1e39}, "inf for 'a' in row 0"),
    "not UTF-8": ({"words": np.array([b"\xff", b"a"]), "vectors": ONE}, "UTF-8"),
}


@pytest.mark.parametrize("arrays, message", BAD_NPZ.values(), ids=BAD_NPZ)
def test_malformed_npz(tmp_path, arrays, message):
    np.savez(tmp_path / "v.npz", **arrays)
    with pytest.raises(EmbeddingsFileError) as caught:
        read_embeddings(tmp_path / "v.npz")
    assert str(caught.value).startswith(str(tmp_path / "v.npz"))
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["v.npz", "v.npy"])
def test_text_under_a_numpy_name(tmp_path, name):
    with pytest.raises(EmbeddingsFileError, match="expected a NumPy"):
        read_embeddings(write(tmp_path / name, b"a 1 2\n"))


def test_malformed_word_list(tmp_path):
    np.save(tmp_path / "v.npy", points(3, 2))
    with pytest.raises(EmbeddingsFileError, match=r"v\.words or v\.txt beside it"):
        read_embeddings(tmp_path / "v.npy")
    words = tmp_path / "v.words"
    for content, line, message in (
        (b"a\n\nb\n", 2, "a blank line"),
        (b"a\nb\n\xff\n", 3, "expected UTF-8"),
    ):
        write(words, content)
        with pytest.raises(EmbeddingsFileError, match=message) as caught:
            read_embeddings(tmp_path / "v.npy")
        assert str(caught.value).startswith(f"{words}:{line}:")
    write(words, b"a\nb\n")
    with pytest.raises(EmbeddingsFileError, match="got 2 words for 3 rows"):
        read_embeddings(tmp_path / "v.npy")


@pytest.mark.parametrize("options, error, message", [
    ({"max_words": 0}, ValueError, "max_words must be at least 1, got 0"),
    ({"max_words": 2.0}, TypeError, "max_words must be an integer, got float"),
    ({"words": "v.vec"}, ValueError, r"words is for \.npy files only"),
    ({"errors": "ignore"}, ValueError, r"\['replace', 'skip', 'strict'\], got 'ignore'"),
])  # fmt: skip
def test_bad_arguments(tmp_path, options, error, message):
    path = write(tmp_path / "v.vec", b"a 1 2\n")
    with pytest.raises(error, match=message):
        read_embeddings(path, **options)
    with pytest.raises(FileNotFoundError, match=r"none\.vec"):
        read_embeddings(tmp_path / "none.vec")


def test_with_counts():
    embeddings = Embeddings(("a", "b"), points(2, 3))
    assert embeddings.counts is None
    counted = embeddings.with_counts({"b": 1, "a": 5.0, "c": 9})
    assert counted.counts.dtype == np.float64
    assert counted.counts.tolist() == [5, 1]
    assert counted.vectors is embeddings.vectors
    with pytest.raises(ValueError, match="none for 'b'"):
        embeddings.with_counts({"a": 1})


def test_real_text_file(shared_data):
    path = shared_data / "ubilexat" / "es-en" / "word2vec.es"
    embeddings = read_embeddings(path)
    assert embeddings.vectors.shape == (4774, 50)
    assert embeddings.n_duplicates == 0
    assert embeddings.words[:3] == ("año", "ciudad", "parte")
    assert {"||", "%"} & set(read_embeddings(path.with_suffix(".en")).words)
