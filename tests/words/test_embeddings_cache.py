"""The cache beside a file: used where it holds what reading gives, never in the way."""

import os

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.vector_files import WORDS, binary_of, check, points, text_of, write, write_as

from gwfast.words import EmbeddingsFileError, read_embeddings

VECTORS = points(3, 3)
BROKEN = ["A", "a", "b", b"\xff", "A", "c", b"\xfe", "b", "d", "e", "D", "f"]


@pytest.fixture
def abc(tmp_path):
    return write(tmp_path / "v.vec", text_of("abc", VECTORS))


@pytest.fixture
def parsed(monkeypatch):
    """The paths that were parsed, in order."""
    from gwfast.words.files import reading

    paths = []
    for name in ("read_text", "read_binary"):
        former = getattr(reading, name)

        def noted(source, *arguments, former=former):
            paths.append(source.path)
            return former(source, *arguments)

        monkeypatch.setattr(reading, name, noted)
    return paths


def same(a, b):
    check(a, b.words, b.vectors)
    assert a.counts is None
    assert (a.n_duplicates, a.n_undecodable) == (b.n_duplicates, b.n_undecodable)


def with_broken_words(path):
    return write_as(path, BROKEN, points(len(BROKEN), 4))


def test_never_written_unasked(tmp_path, abc):
    read_embeddings(abc)
    assert os.listdir(tmp_path) == ["v.vec"]


@pytest.mark.parametrize("name", ["v.vec", "v.bin"])
def test_taken_instead_of_the_file(tmp_path, parsed, name):
    words = [word.replace(" ", "_") for word in WORDS]
    vectors = points(len(words), 3)
    made = text_of if name == "v.vec" else binary_of
    path = write(tmp_path / name, made(words, vectors))
    check(read_embeddings(path, cache=True), words, vectors)
    assert sorted(os.listdir(tmp_path)) == [name, f"{name}.npz"]
    check(read_embeddings(path, cache=True), words, vectors)
    assert parsed == [path]
    # Only who asks for it gets it, and it is an archive like any other.
    check(read_embeddings(path), words, vectors)
    assert len(parsed) == 2
    check(read_embeddings(tmp_path / f"{name}.npz"), words, vectors)


@pairwise(lower=[False, True], errors=["replace", "skip"], made_with=[None, 1, 3, 5, 7, 8, 9, 50])
def test_like_the_file_for_any_number_of_words(tmp_path, parsed, lower, errors, made_with):
    path = with_broken_words(tmp_path / "v.vec")
    cached = tmp_path / "v.vec.npz"
    options = {"lower": lower, "errors": errors}
    made = read_embeddings(path, max_words=made_with, cache=True, **options)
    same(made, read_embeddings(path, max_words=made_with, **options))
    whole = made_with is None or len(made) < made_with
    content = cached.read_bytes()
    for max_words in (None, *range(1, 10), 50):
        write(cached, content)
        expected = read_embeddings(path, max_words=max_words, **options)
        goes_far_enough = whole or (max_words is not None and max_words <= made_with)
        for is_parsed in (not goes_far_enough, False):
            parsed.clear()
            found = read_embeddings(path, max_words=max_words, cache=True, **options)
            same(found, expected)
            assert bool(parsed) == is_parsed


def test_other_options_are_another_reading(tmp_path, parsed):
    path = with_broken_words(tmp_path / "v.vec")
    for options in (
        {"errors": "skip"},
        {"errors": "replace"},
        {"errors": "replace", "lower": True},
    ):
        expected = read_embeddings(path, **options)
        parsed.clear()
        same(read_embeddings(path, cache=True, **options), expected)
        assert parsed
    with pytest.raises(EmbeddingsFileError, match="expected UTF-8"):
        read_embeddings(path, cache=True)


def test_a_changed_file_is_read_anew(tmp_path):
    old, new = points(3, 3), points(3, 3, seed=1)
    path = write(tmp_path / "v.vec", text_of("abc", old))
    read_embeddings(path, cache=True)
    time = path.stat().st_mtime_ns
    write(path, text_of("abc", new) + b"\n" * 100)  # of another size
    os.utime(path, ns=(time, time))
    check(read_embeddings(path, cache=True), "abc", new)
    check(read_embeddings(path, cache=True), "abc", new)
    write(path, path.read_bytes().replace(b"a", b"x"))  # of the same
    os.utime(path, ns=(time + 1, time + 1))
    check(read_embeddings(path, cache=True), "xbc", new)
    check(read_embeddings(path, cache=True), "xbc", new)


def test_an_error_leaves_no_cache(tmp_path):
    path = write(tmp_path / "v.vec", b"a 1 2\nb 1\n")
    with pytest.raises(EmbeddingsFileError):
        read_embeddings(path, cache=True)
    assert os.listdir(tmp_path) == ["v.vec"]


def test_a_damaged_cache_is_replaced(tmp_path, parsed):
    vectors = points(50, 20)
    words = [f"w{i}" for i in range(50)]
    path = write(tmp_path / "v.vec", text_of(words, vectors))
    read_embeddings(path, cache=True)
    cached = tmp_path / "v.vec.npz"
    whole = cached.read_bytes()
    for content in (
        whole[:100],
        whole[:-1],
        whole[: len(whole) // 2],
        whole[:2500] + b"\xff" * 40 + whole[2540:],
    ):
        write(cached, content)
        parsed.clear()
        check(read_embeddings(path, cache=True), words, vectors)
        assert parsed == [path]
        assert cached.read_bytes() == whole


@pytest.mark.parametrize("content", [b"", b"a 1 2\n", b"PK\x03\x04nothing", None])
def test_a_file_of_another_make_is_left_alone(tmp_path, abc, content):
    other = tmp_path / "v.vec.npz"
    if content is None:
        np.savez(other, words=np.array(["x"]), vectors=np.ones((1, 1)))
        content = other.read_bytes()
    write(other, content)
    check(read_embeddings(abc, cache=True), "abc", VECTORS)
    assert other.read_bytes() == content
    assert sorted(os.listdir(tmp_path)) == ["v.vec", "v.vec.npz"]


def test_a_note_of_another_make_is_no_harm(tmp_path, abc):
    for note in (np.array("[]"), np.array("{}"), np.array("{"), np.arange(3)):
        np.savez(
            tmp_path / "v.vec.npz",
            gwfast_cache=note,
            words=np.array(["x"]),
            vectors=np.ones((1, 1)),
            duplicates=np.array([], int),
            undecodable=np.array([], int),
        )
        check(read_embeddings(abc, cache=True), "abc", VECTORS)


def test_no_place_for_a_cache(tmp_path, abc, monkeypatch):

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full)
        check(read_embeddings(abc, cache=True), "abc", VECTORS)
    assert os.listdir(tmp_path) == ["v.vec"]
    (tmp_path / "v.vec.npz").mkdir()
    check(read_embeddings(abc, cache=True), "abc", VECTORS)


def test_a_file_that_changes_while_it_is_read_is_not_cached(tmp_path, monkeypatch):
    from gwfast.words.files import reading

    path = write(tmp_path / "v.vec", text_of("abc", points(3, 3)))
    former = reading.read_text

    def changing(source, *arguments):
        rows = former(source, *arguments)
        write(path, text_of("abcd", points(4, 3)))
        return rows

    monkeypatch.setattr(reading, "read_text", changing)
    assert len(read_embeddings(path, cache=True)) == 3
    assert os.listdir(tmp_path) == ["v.vec"]


def test_a_word_that_the_cache_cannot_hold(tmp_path):
    """A line feed within, which only binary files can have."""
    content = b"2 1\na\nb " + np.float32(1).tobytes() + b"c " + np.float32(2).tobytes()
    path = write(tmp_path / "v.bin", content)
    for _ in range(2):
        check(read_embeddings(path, cache=True), ["a\nb", "c"], [[1], [2]])
    assert os.listdir(tmp_path) == ["v.bin"]


@pytest.mark.parametrize("name", ["v.npz", "v.npy"])
def test_files_of_numpy_need_none(tmp_path, name):
    vectors = points(2, 3)
    path = write_as(tmp_path / name, "ab", vectors)
    before = sorted(os.listdir(tmp_path))
    check(read_embeddings(path, cache=True), "ab", vectors)
    assert sorted(os.listdir(tmp_path)) == before
