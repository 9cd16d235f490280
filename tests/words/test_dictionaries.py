"""Word lists and counts."""

import bz2
import gzip
import lzma

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gwfast.words import (
    EmbeddingsFileError,
    load_sample,
    read_counts,
    read_dictionary,
    write_dictionary,
)

PAIRS = {"casa": {"house", "home"}, "perro": {"dog"}}


def write(path, content):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("format, content", [
    ("auto", "casa house\ncasa home\nperro dog\n"),
    ("auto", "casa\thouse\r\n\r\ncasa\thome\r\nperro\tdog"),
    ("auto", "\ufeffcasa  house\n\n  casa \thome \n \nperro dog\n\n"),
    ("muse", "casa house\ncasa home\nperro\tdog\ncasa house\n"),
    ("dinu", "casa house\r\n\r\ncasa home\r\nperro dog"),
    ("xling", "\ufeffcasa\thouse\ncasa\t home \nperro\tdog\n"),
    ("zhang", "casa\thouse home\nperro\tdog\n"),
    ("zhang", "casa house\nsol\nperro dog\n\ncasa home\nmar\t\n"),
])  # fmt: skip
def test_formats(tmp_path, format, content):
    pairs = read_dictionary(write(tmp_path / "d", content), format=format)
    assert pairs == PAIRS and list(pairs) == ["casa", "perro"]


# One line that is one thing or another: "auto" goes by tabs and names.
LINE, FIELDS = "sin embargo\thow ever\n", {"sin embargo": {"how ever"}}
PARTS = {"sin": {"embargo", "how", "ever"}}
SEVERAL, CASED = "sol sun star\nsol day\n", "Casa House\ncasa home\n"


@pytest.mark.parametrize("name, content, options, expected", [
    ("d.txt", LINE, {}, FIELDS),
    ("d.txt", LINE, {"format": "xling"}, FIELDS),
    ("d.txt", LINE, {"format": "zhang"}, PARTS),
    ("all.es-en.lex", LINE, {}, PARTS),
    ("all.es-en.lex.gz", LINE, {}, PARTS),
    ("d.txt", "1\xa0000 1,000\n", {}, {"1\xa0000": {"1,000"}}),
    ("d.lex", SEVERAL, {}, {"sol": {"sun", "star", "day"}}),
    ("d.lex", SEVERAL, {"first_only": True}, {"sol": {"sun", "day"}}),
    ("d.txt", "sol sun\nsol day\n", {"first_only": True}, {"sol": {"sun", "day"}}),
    ("d.txt", CASED, {}, {"Casa": {"House"}, "casa": {"home"}}),
    ("d.txt", CASED, {"lower": True}, {"casa": {"house", "home"}}),
    ("d.txt", "Éxito A\n", {"lower": True}, {"éxito": {"a"}}),
])  # fmt: skip
def test_names_and_options(tmp_path, name, content, options, expected):
    path = write(tmp_path / name, content)
    assert read_dictionary(path, **options) == expected


@pytest.mark.parametrize(
    "format, content, message",
    [
        ("auto", "", ": expected words, got an empty file"),
        ("auto", "\n \n", ": expected words, got an empty file"),
        ("auto", "a b\n\nc d e\n", ":3: expected 'source target', got 'c d e'"),
        ("auto", "a\tb\tc\n", ":1: expected 'source target'"),
        ("auto", "a\t\n", ":1: expected 'source target'"),
        ("auto", b"a b\nc \xff\n", ":2: expected UTF-8, got byte 0xff"),
        ("muse", "a b\nc\n", ":2: expected 'source target', got 'c'"),
        ("muse", LINE, ":1: expected 'source target', got 'sin embargo\\thow ever'"),
        ("dinu", "a b c\n", ":1: expected 'source target', got 'a b c'"),
        ("xling", "a\tb\nc d\n", ":2: expected 'source<tab>target', got 'c d'"),
        ("xling", "a\tb\n\tc\n", r":2: expected 'source<tab>target', got '\tc'"),
        ("xling", "a\tb\tc\n", ":1: expected 'source<tab>target'"),
        ("zhang", "a\n\nb\n", ": expected pairs of words, got none"),
    ],
)
def test_malformed_lists(tmp_path, format, content, message):
    path = write(tmp_path / "d", content)
    with pytest.raises(EmbeddingsFileError) as caught:
        read_dictionary(path, format=format)
    assert str(caught.value).startswith(f"{path}{message}")


def test_no_such_format_or_file(tmp_path):
    with pytest.raises(ValueError, match=r"format must be one of \['auto', .*got 'cs"):
        read_dictionary(tmp_path / "none", format="csv")
    with pytest.raises(FileNotFoundError, match="none"):
        read_dictionary(tmp_path / "none")


def test_compressed(tmp_path):
    text = b"casa house\ncasa home\nperro dog\n" * 1000
    packed = gzip.compress(text)
    for content in (packed, bz2.compress(text), lzma.compress(text)):
        for name in ("d.txt.gz", "d.txt"):  # by content, not by name
            assert read_dictionary(write(tmp_path / name, content)) == PAIRS
    path = write(tmp_path / "f", gzip.compress(b"casa 3\n"))
    assert read_counts(path) == {"casa": 3}
    for damaged in (packed[:-9], packed[:30] + bytes(20) + packed[50:], packed[:4]):
        path = write(tmp_path / "d.gz", damaged)
        with pytest.raises(EmbeddingsFileError, match=r"d\.gz:\d+: expected whole gzip"):
            read_dictionary(path)


def test_write(tmp_path):
    dictionary = {"sin embargo": ["yet", "however"], "Éxito": {"hit"}}
    path = tmp_path / "d.tsv"
    write_dictionary(path, dictionary)
    expected = "sin embargo\thowever\nsin embargo\tyet\nÉxito\thit\n".encode()
    assert path.read_bytes() == expected
    write_dictionary(tmp_path / "d.tsv.gz", dictionary)
    assert gzip.decompress((tmp_path / "d.tsv.gz").read_bytes()) == expected


# A word list keeps all that is not a tab, a line end or at the ends of a word.
WORDS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\t\r\n"), min_size=1
).filter(lambda word: word == word.strip(" \ufeff"))


@settings(deadline=None)
@given(
    dictionary=st.dictionaries(WORDS, st.sets(WORDS, min_size=1), min_size=1),
    suffix=st.sampled_from([".tsv", ".gz"]),
)
def test_written_lists_read_back(tmp_path_factory, dictionary, suffix):
    path = tmp_path_factory.getbasetemp() / f"written{suffix}"
    write_dictionary(path, dictionary)
    read = read_dictionary(path)
    assert read == dictionary
    assert list(read) == list(dictionary)


@pytest.mark.parametrize(
    "dictionary, error, message",
    [
        ({}, ValueError, "must have a pair of words, got none"),
        ({"a": set()}, ValueError, "must have a pair of words, got none"),
        ({"a": "house"}, TypeError, "sets of words, got the string 'house' for 'a'"),
        ({"a": {""}}, ValueError, "got ''"),
        ({"a": {"b\tc"}}, ValueError, r"got 'b\\tc'"),
        ({"a": {"b"}, "c\n": {"d"}}, ValueError, r"got 'c\\n'"),
        ({" a": {"b"}}, ValueError, "got ' a'"),
        ({"\ufeffa": {"b"}}, ValueError, "without tabs, line ends and outer spaces"),
        ({"a": {"\udc80"}}, ValueError, "surrogates not allowed"),
    ],
)
def test_nothing_unreadable_is_written(tmp_path, dictionary, error, message):
    path = write(tmp_path / "d.tsv", "former\tcontent\n")
    with pytest.raises(error, match=message):
        write_dictionary(path, dictionary)
    assert path.read_text() == "former\tcontent\n"


def test_the_opposite_direction(tmp_path):
    path = write(tmp_path / "d", "a x y\nb x\n")
    found = read_dictionary(path, format="zhang", reverse=True)
    assert found == {"x": {"a", "b"}, "y": {"a"}}
    first = read_dictionary(path, format="zhang", reverse=True, first_only=True)
    assert first == {"x": {"a", "b"}}


def test_counts(tmp_path):
    path = write(tmp_path / "f", "año 727931\n|| 3.5\r\n\na b\t2\naño 1\n")
    assert read_counts(path) == {"año": 727931, "||": 3.5, "a b": 2}


@pytest.mark.parametrize("line", ["a", "a x", "a 0", "a -1", "a nan", "a inf", " 5", "a 1 x"])
def test_malformed_counts(tmp_path, line):
    path = write(tmp_path / "f", f"ok 1\n{line}\n")
    with pytest.raises(EmbeddingsFileError, match="expected 'word count'") as caught:
        read_counts(path)
    assert str(caught.value).startswith(f"{path}:2:")
    with pytest.raises(EmbeddingsFileError, match="empty file"):
        read_counts(write(path, ""))


def test_sample():
    source, target, dictionary = load_sample()
    for side in (source, target):
        assert side.vectors.shape == (2500, 200)
        assert side.vectors.dtype == "float32"
        assert len(set(side.words)) == 2500
    # The rules of the list in gwfast/data/README.md.
    rank = {word: row for row, word in enumerate(source.words)}
    assert len(dictionary) >= 200
    assert all(rank[word] % 5 == 2 for word in dictionary)
    assert list(dictionary) == sorted(dictionary, key=rank.get)
    assert all(right & set(target.words) for right in dictionary.values())
