"""Vectors of other libraries, in memory and in the files that gensim saves."""

import pickle
import sys

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


def test_with_counts():
    embeddings = Embeddings(("a", "b"), points(2, 3))
    assert embeddings.counts is None
    counted = embeddings.with_counts({"b": 1, "a": 5.0, "c": 9})
    assert counted.counts.dtype == np.float64
    assert counted.counts.tolist() == [5, 1]
    assert counted.vectors is embeddings.vectors
    with pytest.raises(ValueError, match="none for 'b'"):
        embeddings.with_counts({"a": 1})


# --- gensim ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def models():
    return pytest.importorskip("gensim.models")


def keyed(models, words, vectors):
    made = models.KeyedVectors(vectors.shape[1])
    made.add_vectors(list(words), vectors)
    return made


@pairwise(name=["v.kv", "v.model", "v.kv.gz", "v.kv.bz2"], sep_limit=[1, 10**9], protocol=[2, 4])
def test_gensim_file(models, tmp_path, name, sep_limit, protocol):
    """The vectors are in the file itself or in a file of their own."""
    vectors = points(len(WORDS), 5)
    saved, path = keyed(models, WORDS, vectors), tmp_path / name
    check(Embeddings(saved.index_to_key, saved.vectors), WORDS, vectors)
    saved.save(str(path), sep_limit=sep_limit, pickle_protocol=protocol)
    check(read_embeddings(path), WORDS, vectors)
    check(read_embeddings(path, max_words=2), WORDS[:2], vectors[:2])


@pytest.mark.parametrize("kind", ["Word2Vec", "FastText", "Doc2Vec"])
def test_gensim_model_file(models, tmp_path, kind):
    texts = [["a", "b", "c"]] * 9
    if kind == "Doc2Vec":
        texts = [models.doc2vec.TaggedDocument(text, [i]) for i, text in enumerate(texts)]
    model = getattr(models, kind)(texts, min_count=1, vector_size=4)
    model.save(str(tmp_path / "m.model"))
    check(read_embeddings(tmp_path / "m.model"), model.wv.index_to_key, model.wv.vectors)


def test_other_and_damaged_pickles(models, tmp_path):
    path = tmp_path / "v.kv"
    keyed(models, "ab", points(2, 3)).save(str(path), sep_limit=1)
    whole = path.read_bytes()
    for content in (whole[:30], whole[:-5], pickle.dumps(7), pickle.dumps({"vectors": 1})):
        with pytest.raises(EmbeddingsFileError, match=r"v\.kv: cannot be read"):
            read_embeddings(write(path, content))
    (tmp_path / "v.kv.vectors.npy").unlink()
    with pytest.raises(EmbeddingsFileError, match=r"v\.kv: cannot be read"):
        read_embeddings(write(path, whole))


class Runs:
    """A pickle of it writes a file when it is loaded by `pickle.load`."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


@pytest.mark.parametrize("name", ["v", "v.vec", "v.bin", "v.npz", "v.gz"])
def test_pickles_run_under_no_other_name(tmp_path, name):
    path = write(tmp_path / name, pickle.dumps(Runs(tmp_path / "ran")))
    with pytest.raises(EmbeddingsFileError, match="expected"):
        read_embeddings(path)
    assert not (tmp_path / "ran").exists()


def test_without_gensim_the_export_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(EmbeddingsFileError, match=r"v\.kv: .* by its save_word2vec_format"):
        read_embeddings(write(tmp_path / "v.kv", pickle.dumps(Runs(tmp_path / "ran"))))
    assert not (tmp_path / "ran").exists()


def test_they_print_in_a_line():
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((3349, 50)).astype(np.float32)
    made = Embeddings(("<b>", *(f"w{i}" for i in range(1, 3349))), vectors)
    assert repr(made) == "Embeddings(3349 words x 50, float32)"
    counted = made.with_counts(dict.fromkeys(made.words, 2.0))
    assert repr(counted) == "Embeddings(3349 words x 50, float32, with counts)"
