"""Word lists and counts."""

import gzip

import pytest
from helpers.vector_files import COMPRESS, write
from hypothesis import given, settings
from hypothesis import strategies as st

from gwfast.words import EmbeddingsFileError, read_counts, read_dictionary, write_dictionary

PAIRS = {"casa": {"house", "home"}, "perro": {"dog"}}
# One line that is one thing or another: "auto" goes by tabs and names.
LINE, FIELDS = "sin embargo\thow ever\n", {"sin embargo": {"how ever"}}
PARTS = {"sin": {"embargo", "how", "ever"}}
SEVERAL, CASED = "sol sun star\nsol day\n", "Casa House\ncasa home\n"


@pytest.mark.parametrize(
    "name, content, options, pairs",
    [
        ("d", "casa house\ncasa home\nperro dog\n", {}, PAIRS),
        ("d", "casa\thouse\r\n\r\ncasa\thome\r\nperro\tdog", {}, PAIRS),
        ("d", "\ufeffcasa  house\n\n  casa \thome \n \nperro dog\n\n", {}, PAIRS),
        ("d", "casa house\ncasa home\nperro\tdog\ncasa house\n", {"format": "muse"}, PAIRS),
        ("d", "\ufeffcasa\thouse\ncasa\t home \nperro\tdog\n", {"format": "xling"}, PAIRS),
        ("d", "casa\thouse home\nperro\tdog\n", {"format": "zhang"}, PAIRS),
        ("d", "casa house\nsol\nperro dog\n\ncasa home\nmar\t\n", {"format": "zhang"}, PAIRS),
        ("d.txt", LINE, {}, FIELDS),
        ("d.txt", LINE, {"format": "zhang"}, PARTS),
        ("all.es-en.lex", LINE, {}, PARTS),
        ("all.es-en.lex.gz", LINE, {}, PARTS),
        ("d.txt", "1\xa0000 1,000\n", {}, {"1\xa0000": {"1,000"}}),
        ("d.lex", SEVERAL, {}, {"sol": {"sun", "star", "day"}}),
        ("d.lex", SEVERAL, {"first_only": True}, {"sol": {"sun", "day"}}),
        ("d.txt", "sol sun\nsol day\n", {"first_only": True}, {"sol": {"sun", "day"}}),
        ("d.lex", "a x y\nb x\n", {"reverse": True}, {"x": {"a", "b"}, "y": {"a"}}),
        ("d.lex", "a x y\nb x\n", {"reverse": True, "first_only": True}, {"x": {"a", "b"}}),
        ("d.txt", CASED, {}, {"Casa": {"House"}, "casa": {"home"}}),
        ("d.txt", CASED, {"lower": True}, {"casa": {"house", "home"}}),
        ("d.txt", "Éxito A\n", {"lower": True}, {"éxito": {"a"}}),
    ],
)
def test_formats_names_and_options(tmp_path, name, content, options, pairs):
    found = read_dictionary(write(tmp_path / name, content.encode()), **options)
    assert found == pairs and list(found) == list(pairs)


def test_compressed_by_content_and_not_by_name(tmp_path):
    text = b"casa house\ncasa home\nperro dog\n" * 1000
    for compress in COMPRESS.values():
        for name in ("d.txt.gz", "d.txt"):
            assert read_dictionary(write(tmp_path / name, compress(text))) == PAIRS
    assert read_counts(write(tmp_path / "f", gzip.compress(b"casa 3\n"))) == {"casa": 3}
    for damaged in (gzip.compress(text)[:-9], gzip.compress(text)[:4]):
        with pytest.raises(EmbeddingsFileError, match=r"d\.gz:\d+: .*gzip"):
            read_dictionary(write(tmp_path / "d.gz", damaged))


def test_content_of_a_written_list(tmp_path):
    dictionary = {"sin embargo": ["yet", "however"], "Éxito": {"hit"}}
    expected = "sin embargo\thowever\nsin embargo\tyet\nÉxito\thit\n".encode()
    write_dictionary(tmp_path / "d.tsv", dictionary)
    write_dictionary(tmp_path / "d.tsv.gz", dictionary)
    assert (tmp_path / "d.tsv").read_bytes() == expected
    content = (tmp_path / "d.tsv.gz").read_bytes()
    assert content[3:8] == bytes(5) and gzip.decompress(content) == expected


# A word list keeps all that is not a tab, a line end or at the ends of a word.
characters = st.characters(exclude_categories=["Cs"], exclude_characters="\t\r\n")
WORDS = st.text(characters, min_size=1).filter(lambda word: word == word.strip(" \ufeff"))


@settings(deadline=None, max_examples=40)
@given(dictionary=st.dictionaries(WORDS, st.sets(WORDS, min_size=1), min_size=1))
def test_written_lists_read_back(tmp_path_factory, dictionary):
    path = tmp_path_factory.getbasetemp() / "written.tsv"
    write_dictionary(path, dictionary)
    found = read_dictionary(path)
    assert found == dictionary and list(found) == list(dictionary)


def test_nothing_unreadable_is_written_and_counts_are_read(tmp_path):
    path = write(tmp_path / "d.tsv", b"former\tcontent\n")
    for dictionary in ({}, {"a": {"b"}, "c\n": {"d"}}, {"a": {"\udc80"}}):
        with pytest.raises(ValueError):
            write_dictionary(path, dictionary)
        assert path.read_bytes() == b"former\tcontent\n"
    path = write(tmp_path / "f", "año 727931\n|| 3.5\r\n\r\na b\t2\naño 1\n".encode())
    assert read_counts(path) == {"año": 727931, "||": 3.5, "a b": 2}
