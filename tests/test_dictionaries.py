"""Word lists and counts."""

from pathlib import Path

import pytest

from gwfast.words import (
    DictionaryFileError,
    EmbeddingsFileError,
    invert,
    load_sample,
    merge,
    read_counts,
    read_dictionary,
)

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def write(path, content):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        "casa house\ncasa home\nperro dog\n",
        "casa\thouse\r\n\r\ncasa\thome\r\nperro\tdog",
        "\ufeffcasa  house\n\n  casa \thome \n \nperro dog\n\n",
    ],
)
def test_layouts(tmp_path, content):
    pairs = read_dictionary(write(tmp_path / "d.txt", content))
    assert pairs == {"casa": {"house", "home"}, "perro": {"dog"}}
    assert list(pairs) == ["casa", "perro"]


def test_spaces_inside_entries(tmp_path):
    pairs = read_dictionary(write(tmp_path / "d.tsv", "sin embargo\thowever\n"))
    assert pairs == {"sin embargo": {"however"}}
    pairs = read_dictionary(write(tmp_path / "d.txt", "1\xa0000 1,000\n"))
    assert pairs == {"1\xa0000": {"1,000"}}


@pytest.mark.parametrize(
    "content, line, message",
    [
        ("", None, "got an empty file"),
        ("\n \n", None, "got an empty file"),
        ("a b\nc\n", 2, "expected 'source target', got 'c'"),
        ("a b\n\nc d e\n", 3, "expected 'source target', got 'c d e'"),
        ("a\tb\tc\n", 1, "expected 'source target'"),
        ("a\t\n", 1, "expected 'source target'"),
        (b"a b\nc \xff\n", 2, "expected UTF-8, got byte 0xff"),
    ],
)
def test_malformed_dictionary(tmp_path, content, line, message):
    path = write(tmp_path / "d.txt", content)
    with pytest.raises(DictionaryFileError) as caught:
        read_dictionary(path)
    where = f"{path}: " if line is None else f"{path}:{line}: "
    assert str(caught.value).startswith(where)
    assert message in str(caught.value)


def test_missing_file(tmp_path):
    for reader in (read_dictionary, read_counts):
        with pytest.raises(FileNotFoundError, match="none"):
            reader(tmp_path / "none")


def test_invert_and_merge():
    forward = {"a": {"x", "y"}, "b": {"x"}}
    backward = {"y": {"a", "c"}}
    assert invert(forward) == {"x": {"a", "b"}, "y": {"a"}}
    assert invert(invert(forward)) == forward
    union = {"a": {"x", "y"}, "b": {"x"}, "c": {"y"}}
    assert merge(forward, invert(backward)) == union
    assert forward == {"a": {"x", "y"}, "b": {"x"}}
    assert merge() == {}


def test_counts(tmp_path):
    path = write(tmp_path / "f", "año 727931\n|| 3.5\r\n\na b\t2\naño 1\n")
    assert read_counts(path) == {"año": 727931, "||": 3.5, "a b": 2}


@pytest.mark.parametrize(
    "line", ["a", "a x", "a 0", "a -1", "a nan", "a inf", " 5", "a 1 x"]
)
def test_malformed_counts(tmp_path, line):
    path = write(tmp_path / "f", f"ok 1\n{line}\n")
    with pytest.raises(EmbeddingsFileError, match="expected 'word count'") as caught:
        read_counts(path)
    assert str(caught.value).startswith(f"{path}:2:")


def test_empty_counts(tmp_path):
    with pytest.raises(EmbeddingsFileError, match="empty file"):
        read_counts(write(tmp_path / "f", ""))


def test_sample():
    source, target, dictionary = load_sample()
    for side in (source, target):
        assert side.vectors.shape == (2500, 200)
        assert side.vectors.dtype == "float32"
        assert len(set(side.words)) == 2500
    # What gwfast/data/README.md promises of the list.
    rank = {word: row for row, word in enumerate(source.words)}
    assert len(dictionary) >= 200
    assert all(rank[word] % 5 == 2 for word in dictionary)
    assert list(dictionary) == sorted(dictionary, key=rank.get)
    assert all(right & set(target.words) for right in dictionary.values())


def test_real_lists():
    if not DATA.is_dir():
        pytest.skip("../shared/data is not here")
    pairs = read_dictionary(DATA / "muse" / "es-en.txt")
    assert {"house", "home"} <= pairs["casa"]
    counts = read_counts(DATA / "ubilexat" / "es-en" / "vocab-freq.es")
    assert counts["año"] == 727931
