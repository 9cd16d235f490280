"""Alignments in files and pickles, and with words."""

import copy
import os
import pickle

import numpy as np
import pytest
from helpers.problems import cloud, rotated_pair
from helpers.processes import full_disk

import gwfast

X, Y, _ = rotated_pair(120, 5, 0, noise=0.05)


@pytest.fixture(scope="module", params=[0, 2], ids=["plain", "refined"])
def result(request):
    steps = ("unit", "center", "unit") if request.param else ()
    options = {"n_words": 80, "epsilon": 0.01, "init": "profile"}
    return gwfast.align(X, Y, normalize=steps, refine=request.param, **options)


def test_a_loaded_alignment_maps_and_translates_as_before(result, tmp_path):
    path, (x, y) = os.fsencode(tmp_path / "es-en"), (cloud(9, 5, 1), cloud(8, 5, 2))
    for n in (0, 120):
        result.save(path, rows=n > 0)
        kept = gwfast.Alignment.load(path, n_threads=1)
        assert repr(kept) == f"Alignment({n} x {n} rows, mapping 5 -> 5, {result.gw!r})"
        for name in ("status", "confidence", "advice", "history", "candidates"):
            assert str(getattr(kept.gw, name)) == str(getattr(result.gw, name))
        assert (kept.n_words, kept.n_threads, kept.seconds) == ((80, 80), 1, result.seconds)
        kept.save(tmp_path)  # as a file in the folder
        for alignment in (kept, gwfast.Alignment.load(tmp_path / "mapping.npz")):
            assert alignment.refinement == result.refinement
            np.testing.assert_array_equal(alignment.transform(x), result.transform(x))
            of_target = alignment.transform_target(y)
            np.testing.assert_array_equal(of_target, result.transform_target(y))
    for method in ("csls", "nn", "inverted_softmax"):
        found, expected = (a.translate([3, 7], method=method, k=4) for a in (kept, result))
        np.testing.assert_array_equal(found.indices, expected.indices)
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-6)
    again = kept.refine(1)
    np.testing.assert_array_equal(again.mapping, result.refine(1).mapping)
    assert len(again.refinement) == len(kept.refinement) + 1


def test_arrays_are_read_only_and_pickles_have_no_cache(result):
    pickled = pickle.loads(pickle.dumps(result))
    size = len(pickle.dumps(pickled))
    result.translate(0, direction="backward")
    assert len(pickle.dumps(result)) == size
    for alignment in (result, pickled, copy.deepcopy(result)):
        for side in (alignment.source, alignment.target):
            for array in (alignment.mapping, side.rows, *side.means):
                with pytest.raises(ValueError, match="read-only"):
                    array[:] = 0


ENDS, LETTERS = np.arange(1, 121), np.full(120, 97, np.uint8)


NO_ENDS = [ENDS[:-1], ENDS[::-1], ENDS + 1, np.minimum(ENDS, 9), ENDS[0]]
NO_ENDS += [
    np.where(ENDS == 60, x, ENDS.astype(type(x))) for x in (np.int64(-2), np.uint64(-2 % 2**64))
]
DAMAGES = [
    (lambda content: b"", ""),
    (lambda content: content[: len(content) // 2], ""),
    (lambda content: content[content.index(b"\x93NUMPY") :], ""),
    ({"gwfast_alignment": None}, "gwfast_alignment"),
    ({"gwfast_alignment": 99}, r"\b99\b"),
    ({"mapping": None}, "mapping"),
    ({"mapping": np.array([{}])}, "mapping.*objects"),
    ({"target_mapping": np.eye(4)}, "target_mapping"),
    ({"source_rows": np.array(1.0)}, "source_rows.*0-D"),
    ({"source_steps": np.array(["std"])}, "source_steps.*std"),
    ({"source_means": np.ones((3, 5))}, "source_means"),
    ({"n_words": np.array(80)}, "n_words"),
    ({"gw_about": np.array("{}")}, "format"),
    ({"gw_q": np.ones(9)}, "potentials"),
    ({"gw_p": -np.ones(80)}, "p"),
    ({"mapping": np.full((5, 5), np.nan)}, "mapping"),
    ({"seconds": np.nan}, "seconds"),
    ({"n_words": np.array([80, 10**9])}, r"n_words.*\(120, 120\).*\(80, 1000000000\)"),
    ({"source_columns": np.array("[1, 2]")}, "source_columns.*5.*2"),
]
DAMAGES += [({f"gw_{side}": np.full(80, x)}, side) for side in "pqfg" for x in (np.nan, np.inf)]
DAMAGES += [({"source_words": LETTERS, "source_word_ends": x}, "source_word_ends") for x in NO_ENDS]


@pytest.mark.parametrize("damage, fact", DAMAGES)
def test_other_files_are_refused_by_name_and_replaced_only_as_a_whole(
    result, tmp_path, damage, fact
):
    path = tmp_path / "es-en.npz"
    result.save(path)
    if isinstance(damage, dict):
        arrays = {**np.load(path), **damage}
        np.savez(path, **{name: x for name, x in arrays.items() if x is not None})
    else:
        path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=rf"^{path}: .*{fact}"):
        gwfast.Alignment.load(os.fsencode(path))
    before = path.read_bytes()
    with full_disk(1000), pytest.raises(OSError):
        result.save(path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == [path.name]


WORDS = [f"w{i}" for i in range(118)]
WORDS = [*WORDS, "a b\n", "\ud800é"], ["twice", "twice", *WORDS]


def test_words_and_vectors_are_translated(result, tmp_path):
    named = result.with_words(*WORDS)
    named.save(tmp_path / "a")
    kept = gwfast.Alignment.load(tmp_path / "a")
    assert kept.words == named.words == kept.refine(1).words == tuple(map(tuple, WORDS))
    for alignment in (named, kept):
        expected = alignment.translate([3, 119], k=4)
        for items in (["w3", "\ud800é"], np.array(["w3", "\ud800é"]), X[[3, 119]]):
            found = alignment.translate(items, k=4)
            np.testing.assert_array_equal(found.indices, expected.indices)
            np.testing.assert_allclose(found.scores, expected.scores, atol=1e-5)
            assert found.words[0] == [WORDS[1][row] for row in found.indices[0]]
        assert alignment.translate("w3").indices.shape == (1, 10)
        # The first row of a word that repeats is looked up.
        twice, first = (alignment.translate(x, k=4, direction="backward") for x in ("twice", 0))
        np.testing.assert_array_equal(twice.indices, first.indices)
