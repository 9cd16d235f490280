"""Writing vectors: we and others read back the same vectors."""

import gzip
import os
import stat
import time

import numpy as np
import pytest
from helpers.vector_files import WORDS, check, points
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gwfast.words import Embeddings, read_embeddings, write_embeddings

NAMES = ["v.vec", "v.txt", "v.bin", "v.npz", "v.vec.gz", "v.txt.gz", "v.bin.gz"]
ONE_PART = tuple(word.replace(" ", "_") for word in WORDS)
in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)

letters = st.characters(exclude_categories=["Cs"], exclude_characters=" \n\r\0")
some_words = st.lists(st.text(letters, min_size=1, max_size=6), unique=True, min_size=1, max_size=8)


@st.composite
def some_embeddings(draw):
    words = draw(some_words)
    shape = len(words), draw(st.integers(1, 9))
    numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)
    return Embeddings(tuple(words), draw(arrays.arrays(np.float32, shape, elements=numbers)))


@pytest.mark.slow
@given(embeddings=some_embeddings(), name=st.sampled_from(NAMES))
@in_one_folder
def test_round_trip(tmp_path, name, embeddings):
    write_embeddings(tmp_path / name, embeddings)
    found = read_embeddings(tmp_path / name)
    check(found, embeddings.words, embeddings.vectors)
    bits = found.vectors.view(np.int32), embeddings.vectors.view(np.int32)
    np.testing.assert_array_equal(*bits)


@pytest.mark.parametrize("name", NAMES)
def test_many_rows(tmp_path, name):
    words, vectors = [f"w{i}" for i in range(1000)], points(1000, 7)
    write_embeddings(str(tmp_path / name), Embeddings(words, vectors))
    check(read_embeddings(tmp_path / name), words, vectors)


def test_files_as_they_are(tmp_path):
    vectors = np.array([[1, -0.5, 1e-9], [0.1, 3e38, 0]], np.float32)
    embeddings = Embeddings(("a", "é"), vectors)
    write_embeddings(tmp_path / "v.vec", embeddings)
    assert (tmp_path / "v.vec").read_text("utf-8") == (
        "2 3\na 1 -0.5 9.99999972e-10\né 0.100000001 3.00000001e+38 0\n"
    )
    write_embeddings(tmp_path / "v.vec", embeddings, precision=3)
    assert (tmp_path / "v.vec").read_text("utf-8") == ("2 3\na 1 -0.5 1e-09\né 0.1 3e+38 0\n")
    write_embeddings(tmp_path / "v.bin", embeddings)
    rows = vectors[0].tobytes(), vectors[1].tobytes()
    content = (tmp_path / "v.bin").read_bytes()
    assert content == b"2 3\na %b\n\xc3\xa9 %b\n" % rows
    write_embeddings(tmp_path / "v.npz", embeddings)
    with np.load(tmp_path / "v.npz") as found:
        assert sorted(found.files) == ["vectors", "words"]
        assert found["words"].tolist() == ["a", "é"]
        np.testing.assert_array_equal(found["vectors"], vectors)


def test_the_format_may_be_given(tmp_path):
    vectors = points(len(ONE_PART), 40)
    for format in ("text", "binary"):
        write_embeddings(tmp_path / "v", Embeddings(ONE_PART, vectors), format=format)
        content = (tmp_path / "v").read_bytes()
        assert content.startswith(b"9 40\ncasa ")
        assert (b"\0" in content or b"\x01" in content) == (format == "binary")
        check(read_embeddings(tmp_path / "v"), ONE_PART, vectors)
    write_embeddings(tmp_path / "v.vec", Embeddings(ONE_PART, vectors), format="npz")
    assert (tmp_path / "v.vec").read_bytes().startswith(b"PK")


@pytest.mark.parametrize("end", [".vec.gz", ".bin.gz"])
def test_equal_vectors_make_equal_files(tmp_path, monkeypatch, end):
    """Under any name and at any time."""
    contents = []
    for seconds in (10**9, 2 * 10**9):
        path = tmp_path / f"{seconds}{end}"
        with monkeypatch.context() as context:
            context.setattr(time, "time", lambda seconds=seconds: seconds)
            write_embeddings(path, Embeddings(ONE_PART, points(9, 3)))
        contents.append(path.read_bytes())
    assert contents[0] == contents[1]
    assert gzip.decompress(contents[0]).startswith(b"9 3\ncasa ")


@pytest.mark.parametrize("word, formats, message", [
    ("a b", ("text", "binary"), "'a b' with a space or line break; see space"),
    ("a\nb", ("text", "binary"), r"'a\\nb' with a space or line break"),
    ("a\r", ("text", "binary"), r"'a\\r' with a space or line break"),
    ("a\0", ("npz",), r"'a\\x00' with a NUL at its end"),
    ("\ud800", ("text", "binary", "npz"), "a lone surrogate"),
])  # fmt: skip
@pytest.mark.parametrize("format", ["text", "binary", "npz"])
def test_words_that_a_format_cannot_hold(tmp_path, word, formats, message, format):
    path = tmp_path / ("v.npz" if format == "npz" else "v.bin")
    embeddings = Embeddings(("x", word), points(2, 30))
    if format not in formats:
        write_embeddings(path, embeddings, format=format)
        check(read_embeddings(path), embeddings.words, embeddings.vectors)
        return
    with pytest.raises(ValueError, match=message):
        write_embeddings(path, embeddings, format=format)
    assert not os.listdir(tmp_path)


def test_spaces_replaced(tmp_path):
    vectors = points(len(WORDS), 4)
    for name in ("v.vec", "v.bin"):
        write_embeddings(tmp_path / name, Embeddings(WORDS, vectors), space="_")
        check(read_embeddings(tmp_path / name), ONE_PART, vectors)
    write_embeddings(tmp_path / "v.npz", Embeddings(WORDS, vectors), space="_")
    check(read_embeddings(tmp_path / "v.npz"), WORDS, vectors)
    for words, space, message in (
        (["a b", "a_b"], "_", "'a_b' twice"),
        ([" "], "", "be empty"),
        *((["a"], space, "space must be text") for space in " \r\n"),
    ):
        with pytest.raises(ValueError, match=message):
            made = Embeddings(words, points(len(words), 2))
            write_embeddings(tmp_path / "w.vec", made, space=space)
    assert not (tmp_path / "w.vec").exists()


@pytest.mark.parametrize("name, options, message", [
    ("v", {}, r"name does not end in \.vec, \.txt, \.bin, \.npz .* got 'v'"),
    ("v.npy", {}, r"got 'v\.npy'"),
    ("v.gz", {}, r"got 'v\.gz'"),
    ("v.vec.bz2", {}, r"got 'v\.vec\.bz2'"),
    ("v.npz.gz", {}, "not to be compressed"),
    ("v.vec", {"format": "csv"}, "'text', 'binary' or 'npz', got 'csv'"),
    ("v.vec", {"precision": 0}, "precision must be 1 to 9, got 0"),
    ("v.vec", {"precision": 10}, "precision must be 1 to 9, got 10"),
])  # fmt: skip
def test_bad_arguments(tmp_path, name, options, message):
    with pytest.raises(ValueError, match=message):
        write_embeddings(tmp_path / name, Embeddings(ONE_PART, points(9, 3)), **options)
    assert not os.listdir(tmp_path)


def test_what_is_no_embeddings(tmp_path):
    for made in (7, (ONE_PART, points(9, 3)), {"sol": [1.0]}):
        with pytest.raises(TypeError, match=r"got \w+; Embeddings\(words, vectors\)"):
            write_embeddings(tmp_path / "v.vec", made)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_left_of_a_file_that_is_too_large(tmp_path, name):
    resource = pytest.importorskip("resource")
    path = tmp_path / name
    path.write_text("before")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            write_embeddings(path, Embeddings(ONE_PART, points(9, 900)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(tmp_path) == [name]
    assert path.read_text() == "before"


def test_no_such_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_embeddings(tmp_path / "none" / "v.vec", Embeddings(ONE_PART, points(9, 3)))
    (tmp_path / "v.vec").mkdir()
    with pytest.raises(IsADirectoryError):
        write_embeddings(tmp_path / "v.vec", Embeddings(ONE_PART, points(9, 3)))


def test_permissions_and_links(tmp_path):
    (tmp_path / "plain").write_text("")
    vectors = points(9, 3)
    write_embeddings(tmp_path / "v.vec", Embeddings(ONE_PART, vectors))
    modes = [stat.S_IMODE((tmp_path / n).stat().st_mode) for n in ("plain", "v.vec")]
    assert modes[0] == modes[1]
    os.symlink("v.vec", tmp_path / "link.vec")
    write_embeddings(tmp_path / "link.vec", Embeddings(ONE_PART, -vectors))
    assert (tmp_path / "link.vec").is_symlink()
    check(read_embeddings(tmp_path / "v.vec"), ONE_PART, -vectors)


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="no /dev/null")
def test_a_device_is_not_replaced():
    write_embeddings("/dev/null", Embeddings(ONE_PART, points(9, 3)), format="text")
    assert not os.path.isfile("/dev/null")


# --- gensim ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def keyed_vectors():
    return pytest.importorskip("gensim.models").KeyedVectors


@pytest.mark.parametrize("name", [n for n in NAMES if not n.endswith(".npz")])
def test_gensim_reads_it(tmp_path, keyed_vectors, name):
    vectors = points(len(ONE_PART), 7)
    write_embeddings(tmp_path / name, Embeddings(ONE_PART, vectors))
    found = keyed_vectors.load_word2vec_format(str(tmp_path / name), binary=".bin" in name)
    assert found.index_to_key == list(ONE_PART)
    np.testing.assert_array_equal(found.vectors, vectors)


@pytest.mark.parametrize("binary", [False, True])
def test_gensim_writes_and_we_read(tmp_path, keyed_vectors, binary):
    vectors = points(len(ONE_PART), 7)
    made = keyed_vectors(7)
    made.add_vectors(list(ONE_PART), vectors)
    made.save_word2vec_format(str(tmp_path / "v"), binary=binary)
    check(read_embeddings(tmp_path / "v"), ONE_PART, vectors)
