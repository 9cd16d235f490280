"""Vectors as other libraries hold them, in memory and in gensim's own files."""

import bz2
import gzip
import io
import lzma
import pickle
import types

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.vector_files import WORDS, check, points, write

from gwfast.words import (
    Embeddings,
    EmbeddingsFileError,
    as_embeddings,
    load_sample,
    read_embeddings,
)


def shapes_of(words, vectors):
    """The same as all kinds of objects."""
    keyed = types.SimpleNamespace(index_to_key=list(words), vectors=vectors)
    return {
        "embeddings": Embeddings(tuple(words), vectors),
        "keyed vectors": keyed,
        "model": types.SimpleNamespace(wv=keyed),
        "pair": (words, vectors),
        "list": [list(words), vectors.tolist()],
        "arrays": (np.array(words), np.asfortranarray(vectors)),
        "double": (iter(words), vectors.astype(np.float64)),
        "mapping": dict(zip(words, vectors, strict=True)),
        "mapping of lists": dict(zip(words, vectors.tolist(), strict=True)),
    }


@pytest.mark.parametrize("max_words", [None, 1, 4, 99])
def test_as_embeddings(max_words):
    vectors = points(len(WORDS), 5)
    for made in shapes_of(WORDS, vectors).values():
        found = as_embeddings(made, max_words=max_words)
        check(found, WORDS[:max_words], vectors[:max_words])
        assert found.n_duplicates == found.n_undecodable == 0


def test_what_needs_no_change_is_shared():
    vectors = points(4, 3)
    for kind in ("embeddings", "keyed vectors", "pair"):
        found = as_embeddings(shapes_of("abcd", vectors)[kind])
        assert np.shares_memory(found.vectors, vectors)
    source = load_sample()[0]
    assert as_embeddings(source) is source


def test_embeddings_keep_their_counts():
    given = Embeddings(("a", "b"), points(2, 3), np.array([5.0, 2.0]), n_duplicates=7)
    found = as_embeddings(given, max_words=1)
    check(found, "a", given.vectors[:1])
    assert found.counts.tolist() == [5]
    assert found.n_duplicates == 7


def test_duplicates():
    vectors = points(5, 3)
    for max_words, n_duplicates in ((None, 2), (3, 1)):
        found = as_embeddings((list("abacb"), vectors), max_words=max_words)
        check(found, "abc", vectors[[0, 1, 3]])
        assert found.n_duplicates == n_duplicates


@pytest.mark.parametrize("obj, error, message", [
    (7, TypeError, "obj must be Embeddings, gensim KeyedVectors or .* got int"),
    ("file.vec", TypeError, "got str"),
    (np.ones((2, 2)), TypeError, "got ndarray"),
    ((["a"], [[1]], 3), TypeError, "got 3 items"),
    (([b"a"], [[1]]), TypeError, "words must be str, got b'a'"),
    ({1: [1, 2]}, TypeError, "words must be str, got 1"),
    ({}, ValueError, "vectors"),
    (([], np.ones((0, 3))), ValueError, "got none"),
    ((["a"], [[1, 2], [3, 4]]), ValueError, "got 1 words for 2 rows"),
    ((["a", "b"], [[1, 2], [3]]), ValueError, "vectors must be an array"),
    ((["a"], [1]), ValueError, "2-d array of real numbers"),
    ((["a"], [["1"]]), ValueError, "2-d array of real numbers"),
    ((["a"], [[1j]]), ValueError, "2-d array of real numbers"),
    (([""], [[1]]), ValueError, "expected a word in row 0"),
    ((["a", "b"], [[1.0], [np.nan]]), ValueError, r"nan or inf in row 1 \('b'\)"),
    ((["a", "b"], [[1.0], [1e39]]), ValueError, r"nan or inf in row 1 \('b'\)"),
    ((["a", "a", "b"], [[1.0], [2], [1e39]]), ValueError, r"in row 2 \('b'\)"),
    ({"a": [1, 2], "b": [1]}, ValueError, r"got shapes \(2,\) and \(1,\) \('b'\)"),
    ({"a": 1.0}, ValueError, r"got shapes \(\)"),
    ({"a": [[1]], "b": [[2]]}, ValueError, "vectors must be 1-d"),
])  # fmt: skip
def test_what_is_no_embeddings(obj, error, message):
    with pytest.raises(error, match=message):
        as_embeddings(obj)
    with pytest.raises(ValueError, match="max_words must be at least 1, got 0"):
        as_embeddings(obj, max_words=0)


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
    check(as_embeddings(keyed(gensim, WORDS, vectors)), WORDS, vectors)
    model = gensim.models.Word2Vec([["a", "b", "c"]] * 9, min_count=1, vector_size=4)
    found = as_embeddings(model)
    check(found, model.wv.index_to_key, model.wv.vectors)


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
    check(as_embeddings(model), model.wv.index_to_key, model.wv.vectors)
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
