"""What is done about that which files of vectors should not have in them, or may."""

import bz2
import gzip
import lzma
import os
import tracemalloc

import numpy as np
import pytest
from helpers.vector_files import binary_of, check, points, text_of, write, write_as

from gwfast.words import EmbeddingsFileError, read_embeddings

COMPRESSIONS = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_compressed_under_any_name(tmp_path, compression):
    compress, words = COMPRESSIONS[compression], [f"w{i}" for i in range(30)]
    vectors = points(30, 20)
    for content, names in (
        (text_of(words, vectors), ("v.vec", "v", "v.vec.old", "v.gz", "v.xz")),
        (binary_of(words, vectors), ("v.bin", "v.bin.bz2", "v", "v.vec", "v.w2v.xz")),
    ):
        for name in names:
            path = write(tmp_path / name, compress(content))
            check(read_embeddings(path), words, vectors)


@pytest.mark.parametrize("name", ["v.bin", "v.bin.1", "v", "v.vec"])
def test_content_decides_between_text_and_binary(tmp_path, name):
    words, vectors = ["x\x01", "\x02"], points(2, 30)
    for content in (text_of(words, vectors), binary_of(words, vectors)):
        check(read_embeddings(write(tmp_path / name, content)), words, vectors)


def test_binary_of_one_column_goes_by_the_name(tmp_path):
    """Four digits are a number as text, and as float32."""
    content = b"1 1\na 1234"
    check(read_embeddings(write(tmp_path / "v.vec", content)), "a", [[1234]])
    value = np.frombuffer(b"1234", "<f4")
    check(read_embeddings(write(tmp_path / "v.bin", content)), "a", [value])


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_cut_compressed_text(tmp_path, compression):
    words, vectors = [f"w{i}" for i in range(400)], points(400, 3)
    content = COMPRESSIONS[compression](text_of(words, vectors))
    for n_bytes in (12, 40, len(content) // 2, len(content) - 6, len(content) - 1):
        path = write(tmp_path / "v", content[:n_bytes])
        with pytest.raises(EmbeddingsFileError) as caught:
            read_embeddings(path)
        assert f"expected whole {compression} data" in str(caught.value)
        assert 1 <= caught.value.line <= 402


def test_cut_gzip_names_the_first_line_that_is_not_whole(tmp_path):
    """Stored blocks tell from outside where the text ends."""
    rows = text_of([f"w{i}" for i in range(100)], points(100, 3), header=False)
    content = gzip.compress(rows, compresslevel=0)
    n_lost = len(rows.split(b"\n", 60)[60])
    path = write(tmp_path / "v", content[: -8 - n_lost - 3])  # within line 60
    with pytest.raises(EmbeddingsFileError, match="whole gzip data") as caught:
        read_embeddings(path)
    assert caught.value.line == 60


def test_an_error_before_the_cut_comes_first(tmp_path):
    rows = text_of(list("abcdef"), points(6, 3), header=False).replace(b"b ", b"b x")
    content = gzip.compress(rows, compresslevel=0)[:-30]
    with pytest.raises(EmbeddingsFileError, match="a word and 3 numbers") as caught:
        read_embeddings(write(tmp_path / "v", content))
    assert caught.value.line == 2


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_damaged_compressed_files(tmp_path, compression):
    """Any byte may be wrong: an error of ours, or the same vectors."""
    words, vectors = [f"w{i}" for i in range(30)], points(30, 4)
    for name, content in (("v.vec", text_of(words, vectors)), ("v.bin", binary_of(words, vectors))):
        whole = COMPRESSIONS[compression](content)
        for position in range(0, len(whole), 7):
            damaged = bytearray(whole)
            damaged[position] ^= 0x55
            path = write(tmp_path / name, bytes(damaged))
            try:
                embeddings = read_embeddings(path)
            except EmbeddingsFileError as error:
                assert str(error).startswith(str(path))
            else:
                check(embeddings, words, vectors)


@pytest.mark.parametrize("name", ["v.npz", "v.npy"])
def test_damaged_files_of_numpy(tmp_path, name):
    """Which NumPy and zipfile refuse with errors of many kinds."""
    words, vectors = ["a", "b", "c"], points(3, 4)
    path = write_as(tmp_path / name, words, vectors)
    whole = path.read_bytes()
    for position in range(0, len(whole), 3):
        with pytest.raises(EmbeddingsFileError):
            read_embeddings(write(path, whole[:position]))
        damaged = bytearray(whole)
        damaged[position] ^= 0x55
        write(path, bytes(damaged))
        try:
            embeddings = read_embeddings(path)
        except EmbeddingsFileError as error:
            assert str(error).startswith(str(path))
            assert "\n" not in str(error)
        else:
            assert embeddings.words == tuple(words)


def test_max_words_does_not_read_to_the_end(tmp_path):
    """Files of several buffers of 256 kB."""
    words, vectors = [f"w{i}" for i in range(5000)], points(5000, 80)
    for name, content in (("v.vec", text_of(words, vectors)), ("v.bin", binary_of(words, vectors))):
        path = write(tmp_path / name, gzip.compress(content, 1)[:-5000])
        check(read_embeddings(path, max_words=99), words[:99], vectors[:99])
        with pytest.raises(EmbeddingsFileError, match="whole gzip data"):
            read_embeddings(path)


def test_max_words_of_an_npz_leaves_the_rest_unread(tmp_path):
    vectors = points(5000, 3)
    vectors[4000] = np.nan
    words = np.array([f"w{i}" for i in range(5000)])
    np.savez(tmp_path / "v.npz", words=words, vectors=vectors)
    found = read_embeddings(tmp_path / "v.npz", max_words=4000)
    check(found, words[:4000].tolist(), vectors[:4000])
    with pytest.raises(EmbeddingsFileError, match="'w4000' in row 4000"):
        read_embeddings(tmp_path / "v.npz")


# --- Case -----------------------------------------------------------------------------

CASED = ["The", "the", "THE", "Ünlü", "ünlü", "İ", "ß", "ẞ", "a", "A", "b"]


def muse_rule(words, max_words=None):
    """MUSE's loader: word2id after `word.lower()`, later ones left out."""
    word2id = {}
    for row, word in enumerate(words):
        if max_words is not None and len(word2id) >= max_words:
            break
        word2id.setdefault(word.lower(), row)
    return list(word2id), list(word2id.values())


@pytest.mark.parametrize("name", ["v.vec", "v.bin", "v.npz", "v.npy"])
def test_lower(tmp_path, name):
    vectors = points(len(CASED), 6)
    path = write_as(tmp_path / name, CASED, vectors)
    check(read_embeddings(path), CASED, vectors)
    for max_words in (None, 1, 2, 4, 50):
        words, rows = muse_rule(CASED, max_words)
        found = read_embeddings(path, lower=True, max_words=max_words)
        check(found, words, vectors[rows])
        read = len(CASED) if max_words in (None, 50) else rows[-1] + 1
        assert found.n_duplicates == read - len(rows)


# --- Words that are not UTF-8 ---------------------------------------------------------

BROKEN = ["uno", b"ni\xf1o", "dos", b"\xff", b"ni\xf1o", b"\xfe", "tres", "uno"]


@pytest.mark.parametrize("name", ["v.vec", "v.bin", "v.npz", "v.npy"])
def test_not_utf8(tmp_path, name):
    vectors = points(len(BROKEN), 6)
    path = write_as(tmp_path / name, BROKEN, vectors)
    with pytest.raises(EmbeddingsFileError) as caught:
        read_embeddings(path)
    place = {
        "v.vec": f"{path}:3: expected UTF-8, got 'ni\\\\xf1o'",
        "v.bin": f"{path}: expected UTF-8, got 'ni\\\\xf1o'",
        "v.npz": f"{path}: expected UTF-8, got 'ni\\\\xf1o'",
        "v.npy": f"{path.with_suffix('.words')}:2: expected UTF-8, got 'ni\\\\xf1o'",
    }
    assert str(caught.value).startswith(place[name])
    assert "errors='replace' or 'skip' reads on" in str(caught.value)
    if name in ("v.bin", "v.npz"):
        assert f"in row {2 if name == 'v.bin' else 1}" in str(caught.value)

    found = read_embeddings(path, errors="skip")
    check(found, ["uno", "dos", "tres"], vectors[[0, 2, 6]])
    assert (found.n_undecodable, found.n_skipped, found.n_duplicates) == (4, 4, 1)

    found = read_embeddings(path, errors="replace")
    words = ["uno", "ni\ufffdo", "dos", "\ufffd", "tres"]
    check(found, words, vectors[[0, 1, 2, 3, 6]])
    assert (found.n_undecodable, found.n_skipped, found.n_duplicates) == (4, 0, 3)

    for errors, n_undecodable in (("skip", 1), ("replace", 0)):
        found = read_embeddings(path, errors=errors, max_words=2 - n_undecodable)
        assert len(found) == 2 - n_undecodable
    found = read_embeddings(path, errors="replace", max_words=2)
    assert (found.words, found.n_undecodable) == (("uno", "ni\ufffdo"), 1)
    assert read_embeddings(path, max_words=1).words == ("uno",)


def test_a_file_of_skipped_rows_is_refused(tmp_path):
    path = write(tmp_path / "v.vec", b"1 2\n\xff 1 2\n")
    with pytest.raises(EmbeddingsFileError, match=r"got none \(1 rows were skipped\)"):
        read_embeddings(path, errors="skip")


def test_latin_1(tmp_path):
    path = write(tmp_path / "v.vec", b"2 2\nni\xf1o 1 2\nsol 3 4\n")
    found = read_embeddings(path, encoding="latin-1")
    check(found, ["ni\xf1o", "sol"], [[1, 2], [3, 4]])
    assert found.n_undecodable == found.n_skipped == 0
    assert read_embeddings(path, errors="skip").words == ("sol",)
    for encoding in ("utf-16", "hex", "none such", None):
        with pytest.raises(ValueError, match="encoding must be the name of"):
            read_embeddings(path, encoding=encoding)


# Rows that cannot be used between "sol 1 2" and "luna 3 4", and what is said of them;
# None is nothing.
UNUSABLE = {
    b"zu 0 0": None,
    b"zu nan 1": "finite numbers, got nan or inf for 'zu'",
    b"zu 1 1e39": "finite numbers, got nan or inf for 'zu'",
    b"route 66 1 2": "got more numbers; the separator is one space, as in 'route 66'",
    b" 1 2": "got no word",
    b"zu\t1\t2": "got 0 numbers; the separator is one space, not a tab",
    b"zu\t1 2": "got 1 numbers; the separator is one space, not a tab",
    b"zu  1 2": "got 'zu '; the separator is one space, not two",
    b"zu 1  2": "; the separator is one space, not two",
    b"zu 1": "got 1 numbers",
    b"zu 1 x": "got 'x'",
    b"\n": "got 0 numbers",
}


@pytest.mark.parametrize("row", UNUSABLE)
@pytest.mark.parametrize("header", [b"", b"3 2\n"])
def test_rows_that_cannot_be_used(tmp_path, row, header):
    rows = b"sol 1 2", row, b"luna 3 4"
    path = write(tmp_path / "v.vec", header + b"\n".join(rows) + b"\n")
    if UNUSABLE[row] is None:
        assert len(read_embeddings(path)) == 3
    else:
        with pytest.raises(EmbeddingsFileError) as caught:
            read_embeddings(path)
        assert UNUSABLE[row] in str(caught.value)
        assert "errors='skip' leaves such rows out" in str(caught.value)
        assert caught.value.line == 2 + bool(header)
    found = read_embeddings(path, errors="skip")
    check(found, ["sol", "luna"], [[1, 2], [3, 4]])
    assert found.n_skipped == 1 + (row == b"\n")


def test_the_first_row_of_a_file_without_header_cannot_be_used(tmp_path):
    """Most rows say how many columns there are."""
    for row in (b"new york 1 2", b"zu\t1\t2", b"zu 1", b"3\t2", b"3 2 2 2"):
        path = write(tmp_path / "v.vec", row + b"\nsol 1 2\nluna 3 4\nrey 5 6\n")
        found = read_embeddings(path, errors="skip")
        assert found.words[-3:] == ("sol", "luna", "rey")
        assert found.n_skipped == (row != b"new york 1 2")
    for row in (b"sol\t1\t2\n", b"sol\t1 2\n"):
        with pytest.raises(EmbeddingsFileError, match="one space, not a tab"):
            read_embeddings(write(tmp_path / "v.vec", 3 * row), errors="skip")


@pytest.mark.parametrize("name", ["v.vec", "v.bin"])
@pytest.mark.parametrize("n_rows", [2, 4])
def test_a_header_with_a_wrong_number_of_rows(tmp_path, name, n_rows):
    vectors = points(3, 2)
    content = (binary_of if name == "v.bin" else text_of)(list("abc"), vectors)
    path = write(tmp_path / name, b"%d" % n_rows + content.removeprefix(b"3"))
    few = min(n_rows, 3)
    with pytest.raises(EmbeddingsFileError, match=f"; max_words={few} or errors='skip'"):
        read_embeddings(path)
    check(read_embeddings(path, max_words=few), "abc"[:few], vectors[:few])
    check(read_embeddings(path, errors="skip"), "abc", vectors)


@pytest.mark.parametrize("name", ["v.vec", "v.bin", "v.npz", "v.npy"])
def test_skipped_rows_in_every_format(tmp_path, name):
    """A good row follows of a word whose first row cannot be used."""
    words = ["a", "b", "a", "c", "d"]
    vectors = np.array([[0, 0], [1, 2], [3, 4], [np.nan, 1], [5, 6]], np.float32)
    path = write_as(tmp_path / name, words, vectors)
    with pytest.raises(EmbeddingsFileError, match=r"'c'.*errors='skip' leaves such rows"):
        read_embeddings(path)
    found = read_embeddings(path, errors="skip")
    check(found, ["b", "a", "d"], vectors[[1, 2, 4]])
    assert (found.n_skipped, found.n_undecodable, found.n_duplicates) == (2, 0, 0)
    assert read_embeddings(path, errors="skip", max_words=1).n_skipped == 1


# --- Lines ----------------------------------------------------------------------------


# What becomes of a line "word 1 2 3", and what is said about it.
SPOILED = {
    b"%w %1 %2": "got 2 numbers",
    b"%w %1 %2 %3 7": "got more numbers",
    b"%w %1 %2 x": "got 'x'",
    b"%w %1 %2 1_0": "got '1_0'",
    b"%w %1 %2 0x1p3": "got '0x1p3'",
    b"%w %1 %2 0,5": "got '0,5'",
    b"%w\t%1\t%2\t%3": "got 0 numbers",
    b"%w %1 %2 nan": "got nan or inf",
    b"%w %1 %2 -1e39": "got nan or inf",
    b"\xe4%w %1 %2 %3": "expected UTF-8",
    b"": "got 0 numbers",
    b" %1 %2 %3": "got no word",
}


@pytest.mark.parametrize("pattern", SPOILED)
def test_the_line_is_named_wherever_it_is(tmp_path, pattern):
    vectors = np.round(points(23, 3), 3)
    for header in (True, False):
        lines = text_of([f"w{i}" for i in range(23)], vectors, header).split(b"\n")
        # Without a header the first line says how many columns there are.
        # Blank lines are in order at the end.
        for position in range(1, 22):
            spoiled = pattern
            for place, part in zip(b"w123", lines[position].split(b" "), strict=True):
                spoiled = spoiled.replace(b"%%%c" % place, part)
            content = [*lines[:position], spoiled, *lines[position + 1 :]]
            path = write(tmp_path / "v.vec", b"\n".join(content))
            with pytest.raises(EmbeddingsFileError) as caught:
                read_embeddings(path)
            assert caught.value.line == position + 1
            assert SPOILED[pattern] in str(caught.value)


def test_lines_of_several_blocks(tmp_path):
    """Rows follow blocks of a megabyte, wherever these end; a line that is wrong is named."""
    words = [f"w{i}" if i % 5 else f"{i} {'york ' * (i % 35)}city" for i in range(30_000)]
    vectors = points(30_000, 2)
    path = write(tmp_path / "v", text_of(words, vectors, header=False))
    check(read_embeddings(path), words, vectors)
    path.write_bytes(path.read_bytes() + b"w 1\n")
    with pytest.raises(EmbeddingsFileError) as caught:
        read_embeddings(path)
    assert caught.value.line == 30_001


def test_lines_after_blank_ones(tmp_path):
    for n_blank in (0, 1, 2, 40, 1 << 20):
        rows = b"a 1 2\n" * 3 + b"\n" * n_blank
        check(read_embeddings(write(tmp_path / "v", rows)), "a", [[1, 2]])
        if n_blank:
            path = write(tmp_path / "v", rows + b"b 1 2\n")
            with pytest.raises(EmbeddingsFileError) as caught:
                read_embeddings(path)
            assert caught.value.line == 4


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
    """Also where lines have one number of fields, which is not that of the columns."""
    some = [f"new {'york ' * (i % 3)}city" if i % 4 else "w" for i in range(50)]
    for words in ([f"{i}{word}" for i, word in enumerate(some)], ["a x", "b x", "c x"]):
        vectors = points(len(words), 4)
        path = write(tmp_path / "v.vec", text_of(words, vectors))
        check(read_embeddings(path), words, vectors)


@pytest.mark.parametrize("content, message", [
    (b"2 2\ra 1 2\rb 3 4\r", r"got '2.*ra'"),
    ("2 2\na 1 2\n".encode("utf-16"), "expected"),
    (b"\x00" * 100, "expected the header"),
    (b"\n\n", "expected the header"),
    (b"-1 2\na 1 2\n", "expected"),
    (b"99999999999999999999 2\na 1 2\n", "expected"),
    (b"9" * 5000 + b" 2\na 1 2\n", "expected"),
    (b"\x80\x04.", "got a pickle; gensim's are read under a name in .kv or .model"),
    (b"\xef\xbb\xbf", "expected the header"),
])  # fmt: skip
def test_strange_beginnings(tmp_path, content, message):
    path = write(tmp_path / "v", content)
    with pytest.raises(EmbeddingsFileError, match=message):
        read_embeddings(path)


def test_text_that_begins_like_bzip2(tmp_path):
    path = write(tmp_path / "v", b"BZh9 1 2\n")
    check(read_embeddings(path), ["BZh9"], [[1, 2]])


def test_a_header_of_more_rows_than_memory_is_no_harm(tmp_path):
    for name in ("v.vec", "v.bin"):
        plain = b"9" * 15 + b" 1000\nw" + b" 1" * 1000 + b"\n"
        for content in (plain, gzip.compress(plain)):
            path = write(tmp_path / name, content)
            with pytest.raises(EmbeddingsFileError, match=r"expected 9+ rows"):
                read_embeddings(path)


def test_folder(tmp_path):
    with pytest.raises(OSError, match=r"[Dd]irectory|denied"):
        read_embeddings(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_pipe(tmp_path):
    """It would be waited for without an end, when it is opened again."""
    os.mkfifo(tmp_path / "v")
    with pytest.raises(EmbeddingsFileError, match="expected a regular file, got a pipe"):
        read_embeddings(tmp_path / "v")


def test_byte_order_mark_without_header(tmp_path):
    path = write(tmp_path / "v", b"\xef\xbb\xbfa 1 2\n\xef\xbb\xbfb 3 4\n")
    check(read_embeddings(path), ["a", "\ufeffb"], [[1, 2], [3, 4]])
    np.save(tmp_path / "v.npy", points(2, 2))
    write(tmp_path / "v.words", b"\xef\xbb\xbfa\nb\n")
    assert read_embeddings(tmp_path / "v.npy").words == ("a", "b")


# --- Memory ---------------------------------------------------------------------------


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
        if kind == "gzip":
            text = gzip.compress(text, 1)
        path = write(tmp_path / "v.vec", text)
    del words, vectors
    tracemalloc.start()
    try:
        embeddings = read_embeddings(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    words_bytes = 8000 * (60 + 8 + 110)  # str, tuple, and the dict at its largest
    assert peak < embeddings.vectors.nbytes + words_bytes + (12 << 20)
