"""Files that gensim reads and writes; only gensim may run pickles."""

import os
import pickle
import sys

import numpy as np
import pytest
from helpers.vector_files import ONE_PART, check, points, write

from gwfast.words import Embeddings, EmbeddingsFileError, read_embeddings, write_embeddings

VECTORS = points(len(ONE_PART), 7)


@pytest.fixture
def keyed():
    vectors = pytest.importorskip("gensim.models").KeyedVectors(7)
    vectors.add_vectors(list(ONE_PART), VECTORS)
    return vectors


@pytest.mark.parametrize("name", ["v.vec", "v.bin", "v.vec.gz", "v.bin.gz"])
def test_word2vec_files_of_both(tmp_path, keyed, name):
    path, binary = tmp_path / name, ".bin" in name
    write_embeddings(path, Embeddings(ONE_PART, VECTORS))
    read = type(keyed).load_word2vec_format(str(path), binary=binary)
    assert read.index_to_key == list(ONE_PART)
    np.testing.assert_array_equal(read.vectors, VECTORS)
    keyed.save_word2vec_format(str(path), binary=binary)
    check(read_embeddings(path), ONE_PART, VECTORS)


@pytest.mark.parametrize("name", ["v.kv", "v.model", "v.kv.gz", "v.kv.bz2"])
def test_saved_vectors(tmp_path, keyed, name):
    path = tmp_path / name
    # The vectors are in a file of their own, or in the file itself.
    for sep_limit, protocol in ((1, 2), (10**9, 4)):
        keyed.save(str(path), sep_limit=sep_limit, pickle_protocol=protocol)
        check(read_embeddings(path), ONE_PART, VECTORS)
        check(read_embeddings(path, max_words=2), ONE_PART[:2], VECTORS[:2])


@pytest.mark.parametrize("kind", ["Word2Vec", "FastText", "Doc2Vec"])
def test_saved_models(tmp_path, kind):
    models = pytest.importorskip("gensim.models")
    texts = [["a", "b", "c"]] * 9
    if kind == "Doc2Vec":
        texts = [models.doc2vec.TaggedDocument(text, [i]) for i, text in enumerate(texts)]
    model = getattr(models, kind)(texts, min_count=1, vector_size=4)
    model.save(str(tmp_path / "m.model"))
    check(read_embeddings(tmp_path / "m.model"), model.wv.index_to_key, model.wv.vectors)


def test_other_and_damaged_pickles(keyed, tmp_path):
    path = tmp_path / "v.kv"
    keyed.save(str(path), sep_limit=1)
    whole = path.read_bytes()
    (tmp_path / "v.kv.vectors.npy").unlink()
    for content in (whole[:30], whole[:-5], pickle.dumps(7), pickle.dumps({"vectors": 1}), whole):
        with pytest.raises(EmbeddingsFileError, match=r"v\.kv: "):
            read_embeddings(write(path, content))


@pytest.mark.parametrize("name", ["v", "v.vec", "v.bin", "v.npz", "v.gz", "v.kv"])
def test_pickles_run_only_through_gensim(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    # Opcodes of a call of `os.mkdir`.
    call = b"\x80\x02cos\nmkdir\n(V" + os.fsencode(tmp_path / "ran") + b"\ntR."
    pickle.loads(call)
    (tmp_path / "ran").rmdir()
    path = write(tmp_path / name, call)
    with pytest.raises(EmbeddingsFileError) as caught:
        read_embeddings(path)
    assert caught.value.path == path
    # The error names the way to export the vectors.
    assert ("save_word2vec_format" in str(caught.value)) == (name == "v.kv")
    assert not (tmp_path / "ran").exists()
