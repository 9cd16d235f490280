"""Vectors as other libraries hold them, in memory and in gensim's own files."""

import bz2
import gzip
import io
import lzma
import pickle

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.vector_files import WORDS, check, points, write

from gwfast.words import Embeddings, EmbeddingsFileError, read_embeddings


def test_lists_and_arrays():
    vectors = points(len(WORDS), 5)
    for made in (
        Embeddings(WORDS, vectors),
        Embeddings(iter(WORDS), vectors.tolist()),
        Embeddings(np.array(WORDS), np.asfortranarray(vectors)),
        Embeddings(list(WORDS), vectors.astype(np.float64), np.arange(1, 10)),
    ):
        check(made, WORDS, vectors)
        assert made.n_duplicates == made.n_undecodable == 0
        assert made.counts is None or made.counts.dtype == np.float64


def test_frames_are_read_as_arrays():
    pandas = pytest.importorskip("pandas")
    vectors = points(4, 3)
    frame = pandas.DataFrame(vectors, index=list("abcd")).astype("Float32")
    check(Embeddings(frame.index, frame), "abcd", vectors)


def test_an_array_that_needs_no_change_is_shared():
    vectors = points(4, 3)
    assert np.shares_memory(Embeddings("abcd", vectors).vectors, vectors)


@pytest.mark.parametrize("words, vectors, error, message", [
    ([b"a"], [[1]], TypeError, "words must be str, got bytes"),
    ([""], [[1]], TypeError, "words must not be empty"),
    (["a", "b", "a"], [[1], [2], [3]], ValueError, "words must be distinct, got 'a' 2 times"),
    ([], np.ones((0, 3)), ValueError, "vectors must not be empty"),
    (["a"], [[1, 2], [3, 4]], ValueError, "vectors must have a row for each of the 1 words"),
    (["a", "b"], [[1, 2], [3]], ValueError, "vectors must be an array"),
    (["a"], [1], ValueError, "vectors must be a 2-D array"),
    (["a"], [["1"]], TypeError, "vectors must hold real numbers"),
    (["a"], [[1j]], TypeError, "vectors must hold real numbers"),
    (["a", "b"], [[1.0], [np.nan]], ValueError, r"vectors must be finite, got nan at \[1, 0\]"),
    (["a", "b"], [[1.0], [1e39]], ValueError, r"vectors must be finite, got inf at \[1, 0\]"),
])  # fmt: skip
def test_what_is_no_embeddings(words, vectors, error, message):
    with pytest.raises(error, match=message):
        Embeddings(words, vectors)


# --- gensim ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gensim():
    pytest.importorskip("gensim")
    import gensim.models

    return gensim


def keyed(gensim, words, vectors):
    made = gensim.models.KeyedVectors(vectors.shape[1])
    made.add_vectors(list(words), vectors)
    return made


def test_gensim_objects(gensim):
    vectors = points(len(WORDS), 5)
    made = keyed(gensim, WORDS, vectors)
    check(Embeddings(made.index_to_key, made.vectors), WORDS, vectors)


@pairwise(
    name=["v.kv", "v", "v.vec", "v.bin", "v.gz", "v.kv.bz2"],
    sep_limit=[1, 10**9],
    protocol=[2, 4, 5],
)
def test_gensim_file(gensim, tmp_path, name, sep_limit, protocol):
    """With vectors within, and beside."""
    vectors = points(len(WORDS), 5)
    path = tmp_path / name
    keyed(gensim, WORDS, vectors).save(str(path), sep_limit=sep_limit, pickle_protocol=protocol)
    check(read_embeddings(path), WORDS, vectors)
    check(read_embeddings(path, max_words=2), WORDS[:2], vectors[:2])
    assert gensim.models.KeyedVectors.load(str(path)).index_to_key == list(WORDS)


@pytest.mark.parametrize("sep_limit", [1, 10**9])
def test_gensim_model_file(gensim, tmp_path, sep_limit):
    model = gensim.models.Word2Vec([["a", "b", "c"]] * 9, min_count=1, vector_size=4)
    model.save(str(tmp_path / "m.model"), sep_limit=sep_limit)
    found = read_embeddings(tmp_path / "m.model")
    check(found, model.wv.index_to_key, model.wv.vectors)


def test_gensim_model_of_parts_of_words(gensim, tmp_path):
    model = gensim.models.FastText([["a", "b", "c"]] * 9, min_count=1, vector_size=4, bucket=50)
    model.save(str(tmp_path / "m.model"))
    with pytest.raises(EmbeddingsFileError, match="use its save_word2vec_format"):
        read_embeddings(tmp_path / "m.model")


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_compressed_gensim_file(gensim, tmp_path, compress):
    buffer = io.BytesIO()
    vectors = points(len(WORDS), 5)
    keyed(gensim, WORDS, vectors).save(buffer)
    path = write(tmp_path / "v", compress(buffer.getvalue()))
    check(read_embeddings(path), WORDS, vectors)


def test_gensim_file_without_the_one_beside(gensim, tmp_path):
    path = tmp_path / "v.kv"
    keyed(gensim, "ab", points(2, 3)).save(str(path), sep_limit=1)
    beside = tmp_path / "v.kv.vectors.npy"
    write(beside, beside.read_bytes()[:-4])
    with pytest.raises(EmbeddingsFileError, match=r"v\.kv\.vectors\.npy: cannot be"):
        read_embeddings(path)
    beside.unlink()
    with pytest.raises(EmbeddingsFileError, match=r"in v\.kv\.vectors\.npy beside it"):
        read_embeddings(path)


def test_cut_gensim_file(gensim, tmp_path):
    path = tmp_path / "v.kv"
    keyed(gensim, "ab", points(2, 3)).save(str(path))
    whole = path.read_bytes()
    for n_bytes in range(3, len(whole), 5):
        with pytest.raises(EmbeddingsFileError, match=r"v\.kv: cannot be unpickled"):
            read_embeddings(write(path, whole[:n_bytes]))


class Runs:
    """A pickle of it writes a file when it is loaded by `pickle.load`."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


def test_nothing_in_a_pickle_is_run(tmp_path):
    for content in (Runs(tmp_path / "ran"), {"wv": Runs(tmp_path / "ran")}):
        path = write(tmp_path / "v.kv", pickle.dumps(content))
        with pytest.raises(EmbeddingsFileError, match="expected a pickle of gensim's"):
            read_embeddings(path)
        assert not (tmp_path / "ran").exists()
    path = write(tmp_path / "v.kv", b"\x80\x04cos\nsystem\n(S'touch ran'\ntR.")
    with pytest.raises(EmbeddingsFileError, match="expected a pickle of gensim's"):
        read_embeddings(path)


class Saved:
    """Has what objects of gensim have, under the names of its versions."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


@pairwise(
    name=["index_to_key", "index2word", "index2entity"], model=[False, True], beside=[False, True]
)
def test_files_of_older_versions(tmp_path, name, model, beside):
    vectors = points(len(WORDS), 4)
    saved = Saved(**{name: list(WORDS)}, vocab={"casa": Saved(count=3)})
    if beside:
        vars(saved)["__numpys"] = ["vectors"]
        np.save(tmp_path / f"v.model{'.wv' * model}.vectors.npy", vectors)
    else:
        saved.vectors = vectors
    saved = Saved(wv=saved, random=np.random.RandomState(0)) if model else saved
    path = write(tmp_path / "v.model", pickle.dumps(saved))
    check(read_embeddings(path), WORDS, vectors)


@pairwise(dtype=["f2", "<f4", ">f4", "f8", "i2", "u1"], order=["C", "F"], protocol=[2, 3, 4, 5])
def test_arrays_in_pickles(tmp_path, dtype, order, protocol):
    vectors = (30 * np.abs(points(len(WORDS), 4))).astype(dtype, order)
    saved = Saved(
        index_to_key=list(WORDS),
        vectors=vectors,
        texts=np.array(["a", "bc"]),
        objects=np.array([None, "a"]),
        structures=np.zeros(2, "f4,i2"),
        times=np.zeros(2, "M8[s]"),
        one=np.float32(3),
    )
    path = write(tmp_path / "v.kv", pickle.dumps(saved, protocol))
    check(read_embeddings(path), WORDS, vectors.astype(np.float32))


def test_other_pickles(tmp_path):
    for content, message in (
        (Saved(index_to_key=[1, 2], vectors=points(2, 3)), "expected words, got 1"),
        *(
            (content, "expected a pickle of gensim's")
            for content in (7, ["a"], {"vectors": 1}, np.ones((2, 2)), None)
        ),
    ):
        path = write(tmp_path / "v.kv", pickle.dumps(content))
        with pytest.raises(EmbeddingsFileError, match=message):
            read_embeddings(path)


def test_they_print_in_a_line():
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((3349, 50)).astype(np.float32)
    made = Embeddings(("<b>", *(f"w{i}" for i in range(1, 3349))), vectors)
    assert repr(made) == "Embeddings(3349 words x 50, float32)"
    counted = made.with_counts(dict.fromkeys(made.words, 2.0))
    assert repr(counted) == "Embeddings(3349 words x 50, float32, with counts)"
