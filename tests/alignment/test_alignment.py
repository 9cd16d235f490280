"""Alignments in files, and with words."""

import copy
import io
import os
import pickle

import numpy as np
import pytest
from helpers.problems import cloud, rotated_pair

import gwfast


@pytest.fixture(scope="module", params=[0, 2], ids=["plain", "refined"])
def result(request):
    x, y, _ = rotated_pair(120, 5, 0, noise=0.05)
    steps = ("unit", "center", "unit") if request.param else ()
    return gwfast.align(x, y, n_words=80, normalize=steps, refine=request.param)


def test_a_kept_alignment_maps_and_translates_as_before(result, tmp_path):
    result.save(tmp_path / "es-en")
    kept = gwfast.Alignment.load(tmp_path / "es-en", n_threads=1)
    assert (kept.n_words, kept.n_threads, kept.seconds) == ((80, 80), 1, result.seconds)
    assert kept.refinement == result.refinement
    assert repr(kept) == "Alignment(120 x 120 rows, mapping 5 -> 5)"
    x, y = cloud(9, 5, 1), cloud(8, 5, 2)
    np.testing.assert_array_equal(kept.transform(x), result.transform(x))
    np.testing.assert_array_equal(kept.transform_target(y), result.transform_target(y))
    for method in ("csls", "nn", "inverted_softmax"):
        found = kept.translate([3, 7], method=method, k=4)
        expected = result.translate([3, 7], method=method, k=4)
        np.testing.assert_array_equal(found.indices, expected.indices)
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-6)
    np.testing.assert_array_equal(kept.best_matches().mutual, result.best_matches().mutual)
    again = kept.refine(1)
    np.testing.assert_array_equal(again.mapping, result.refine(1).mapping)
    assert len(again.refinement) == len(kept.refinement) + 1
    for use in (lambda: kept.translate(method="coupling"), lambda: kept.plan, kept.match):
        with pytest.raises(ValueError, match=r"gw is not in a file of Alignment\.save"):
            use()


def same(result):
    return result


def pickled(result):
    return pickle.loads(pickle.dumps(result))


def test_a_pickle_has_no_cache(result):
    size = len(pickle.dumps(pickled(result)))
    result.translate(0, direction="backward")
    assert len(pickle.dumps(result)) == size


@pytest.mark.parametrize("made", [same, pickled, copy.deepcopy])
def test_arrays_of_an_alignment_are_read_only(result, made):
    sides = made(result).source, made(result).target
    arrays = [array for side in sides for array in (side.rows, *side.means)]
    for array in (made(result).mapping, *arrays):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0


def test_a_file_of_the_maps_alone_maps_and_has_nothing_to_translate(result, tmp_path):
    result.save(tmp_path / "whole")
    result.save(tmp_path / "maps", rows=False)
    sizes = [(tmp_path / name).stat().st_size for name in ("whole", "maps")]
    assert sizes[1] < sizes[0] - 4 * result.source.rows.size
    kept = gwfast.Alignment.load(tmp_path / "maps")
    assert repr(kept) == "Alignment(0 x 0 rows, mapping 5 -> 5)"
    x, y = cloud(9, 5, 1), cloud(8, 5, 2)
    np.testing.assert_array_equal(kept.transform(x), result.transform(x))
    np.testing.assert_array_equal(kept.transform_target(y), result.transform_target(y))
    for use in (kept.translate, kept.best_matches, kept.refine):
        with pytest.raises(ValueError, match="it was saved with rows=False"):
            use()
    kept.save(tmp_path / "again")
    again = gwfast.Alignment.load(tmp_path / "again")
    np.testing.assert_array_equal(again.transform(x), result.transform(x))


def changed(content, **arrays):
    with np.load(io.BytesIO(content)) as stored:
        arrays = {**stored, **arrays}
    made = io.BytesIO()
    np.savez(made, **{k: value for k, value in arrays.items() if value is not None})
    return made.getvalue()


def stored_array(_):
    made = io.BytesIO()
    np.save(made, np.eye(3))
    return made.getvalue()


OTHER = "damaged, or no file of Alignment.save"


@pytest.mark.parametrize("damage, message", [
    (lambda content: b"", OTHER),
    (lambda content: b"words\n" * 40, OTHER),
    (lambda content: content[: len(content) // 2], OTHER),
    (lambda content: content.replace(b"\x93NUMPY", b"\x93NUMPX"), OTHER),
    (stored_array, OTHER),
    ({"gwfast_alignment": None}, OTHER),
    ({"gwfast_alignment": np.eye(2)}, OTHER),
    ({"mapping": None}, f"{OTHER}.*mapping"),
    ({"mapping": np.array([{}])}, f"{OTHER}.*got Python objects"),
    ({"source_rows": np.array(1.0)}, "source_rows must be a 2-D array, got 0-D"),
    ({"n_words": np.array(80)}, "n_words must be at most the rows"),
    (
        {"n_words": np.array([80, 10**9])},
        r"n_words must be at most the rows, \(120, 120\), got \(80, 1000000000\)",
    ),
    (
        {"gwfast_alignment": 99},
        r"another version of gwfast, in format 99; this one reads \d$",
    ),
])  # fmt: skip
def test_other_files_are_refused_by_name(result, tmp_path, damage, message):
    path = tmp_path / "es-en.npz"
    result.save(path)
    content = path.read_bytes()
    made = changed(content, **damage) if isinstance(damage, dict) else damage(content)
    path.write_bytes(made)
    with pytest.raises(ValueError, match=rf"es-en\.npz: .*{message}"):
        gwfast.Alignment.load(path)
    with pytest.raises(FileNotFoundError):
        gwfast.Alignment.load(tmp_path / "none")


WORDS = [f"w{i}" for i in range(118)]
WORDS = [*WORDS, "a b\n", "\ud800é"], ["twice", "twice", *WORDS]


def test_words_and_vectors_are_translated(result, tmp_path):
    """A saved alignment translates like the result."""
    with pytest.raises(ValueError, match="items must be row numbers or vectors, as the source has"):
        result.translate("w3")
    named = result.with_words(*WORDS)
    named.save(tmp_path / "a")
    kept = gwfast.Alignment.load(tmp_path / "a")
    assert kept.words == named.words == tuple(map(tuple, WORDS))
    assert kept.refine(1).words == kept.words
    x = rotated_pair(120, 5, 0, noise=0.05)[0][[3, 119]]
    for spaces in (named, kept):
        expected = spaces.translate([3, 119], k=4)
        for asked in (["w3", "\ud800é"], np.array(["w3", "\ud800é"]), x):
            found = spaces.translate(asked, k=4)
            np.testing.assert_array_equal(found.indices, expected.indices)
            np.testing.assert_allclose(found.scores, expected.scores, atol=1e-5)
            assert found.words[0] == [WORDS[1][row] for row in found.indices[0]]
        assert spaces.translate("w3").indices.shape == (1, 10)
        back = spaces.translate(["twice"], k=4, direction="backward").indices
        np.testing.assert_array_equal(back, spaces.translate(0, k=4, direction="backward").indices)
        with pytest.raises(ValueError, match="must be words of the source"):
            spaces.translate(["w3", "w"])
        with pytest.raises(ValueError, match="items must have 5 columns, got 2"):
            spaces.translate([[1.0, 2.0]])
    plan = named.translate(["w3"], method="coupling").indices
    np.testing.assert_array_equal(plan, result.translate([3], method="coupling").indices)


def test_words_are_one_for_each_row(result, tmp_path):
    with pytest.raises(ValueError, match=r"target must have 120 words, .*, got 3"):
        result.with_words(WORDS[0], "abc")
    with pytest.raises(TypeError, match="words that are str, got int"):
        result.with_words(range(120), WORDS[1])
    result.with_words(*WORDS).save(tmp_path / "a")
    content = (tmp_path / "a").read_bytes()
    ends = np.load(tmp_path / "a")["source_word_ends"]
    wrapped = np.where(np.arange(120) == 60, -2, ends)
    for damaged in (
        ends[:-1], ends[::-1], ends + 1, np.minimum(ends, 9), wrapped,
        wrapped.astype(np.uint64), np.stack([ends, ends]), ends[0],
    ):  # fmt: skip
        (tmp_path / "a").write_bytes(changed(content, source_word_ends=damaged))
        with pytest.raises(ValueError, match="source_word_ends must be where"):
            gwfast.Alignment.load(tmp_path / "a")


def test_paths_of_bytes(result, tmp_path):
    path = os.fsencode(tmp_path / "a.npz")
    result.save(path)
    kept = gwfast.Alignment.load(path)
    np.testing.assert_array_equal(kept.mapping, result.mapping)
    with open(path, "wb"), pytest.raises(ValueError, match=f"^{tmp_path}/a.npz: dama"):
        gwfast.Alignment.load(path)


def test_a_file_is_written_whole_or_not_at_all(result, tmp_path, monkeypatch):
    (tmp_path / "a").write_text("before")
    monkeypatch.setattr(np, "savez", lambda stream, **_: stream.write(b"half") / 0)
    with pytest.raises(ZeroDivisionError):
        result.save(tmp_path / "a")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["before"]
