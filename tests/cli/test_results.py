"""The files of a result and its page: all is in them, literally, and others can read them."""

import base64
import html
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from helpers import cli
from helpers.cli import FILES, tree

import gwfast
from gwfast.words import read_dictionary, read_embeddings

UNSAFE = "[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"


def word_of(field):
    return field.encode("latin-1", "backslashreplace").decode("unicode_escape")


def shown(word):
    """The word with escapes for characters that HTML and terminals have no place for."""
    return re.sub(UNSAFE, lambda found: found[0].encode("unicode_escape").decode(), word)


def test_every_line_of_translations_has_its_fields(folder, rows, spaces):
    assert tree(folder) == sorted([*FILES, "source.vec", "target.vec"])
    names = "source rank csls csls_score coupling coupling_share mutual"
    assert [*rows[0]] == names.split()
    assert [int(row["rank"]) for row in rows] == [*range(1, 11)] * 80
    assert all(row["coupling"] and 0 < float(row["coupling_share"]) <= 1 for row in rows[:600:10])
    assert not any(row["coupling"] or row["coupling_share"] for row in rows[600:])
    assert len({row["coupling"] for row in rows[:10]}) == 10
    # Shares of the mass of a word, not of all mass.
    assert np.mean([float(row["coupling_share"]) for row in rows[:600:10]]) > 0.3
    # Each word can be had again, and none ends a line or commands a terminal.
    text = "".join("".join(row.values()) for row in rows)
    assert text == shown(text)
    x, y = spaces.words
    assert [word_of(row["source"]) for row in rows[::10]] == [*x]
    best = spaces.best_matches(10)
    assert [word_of(row["csls"]) for row in rows] == [y[row] for row in best.forward.indices.flat]
    scores = [float(row["csls_score"]) for row in rows]
    np.testing.assert_allclose(scores, best.forward.scores.ravel(), atol=6e-5)
    mutual = best.mutual
    assert [row["mutual"] for row in rows[::10]] == np.where(mutual, "yes", "no").tolist()
    assert {row["mutual"] for k, row in enumerate(rows) if k % 10} == {""}
    lost = {word for word in x if word != shown(word)}
    assert read_dictionary(folder / "dictionary.txt") == {
        x[i]: {y[j]}
        for i, j in enumerate(best.forward.indices[:, 0])
        if mutual[i] and not {x[i], y[j].removesuffix("!")} & lost
    }


def test_the_record(record, rows, spaces):
    gw, settings = record["gw"], record["settings"]
    assert record["versions"]["gwfast"] == gwfast.__version__
    assert settings["epsilon"] == gw["epsilon"] == 0.01
    assert settings["normalize"] == ["unit", "center", "unit"]
    assert settings["methods"] == ["nn", "csls", "inverted_softmax"] == [*record["accuracy"]]
    assert record["plan_shape"] == [60, 60]
    assert {*record["translations"]} <= {*spaces.words[0][:60]}  # which took part
    assert record["history"][-1]["iteration"] == len(record["history"]) == gw["n_iter"]
    assert record["mutual_pairs"] == sum(row["mutual"] == "yes" for row in rows)
    for score in record["accuracy"].values():
        assert (score["coverage"], score["convention"], score["queries"]) == (1, "gwfast", 32)
        # The bounds are the shares from which this share is 1.96 standard errors away.
        bounds = np.array(score["intervals_95"]["P@1"])
        errors = 1.959964 * np.sqrt(bounds * (1 - bounds) / 32)
        np.testing.assert_allclose(bounds + errors * [1, -1], score["P@1"], rtol=1e-6)


@pytest.mark.parametrize("side", ["source", "target"])
def test_vectors_are_of_both_sides(folder, spaces, side):
    read = read_embeddings(folder / f"{side}.vec")
    mapped = getattr(spaces, f"mapped_{side}")
    np.testing.assert_allclose(read.vectors, mapped, rtol=1e-6, atol=1e-7)
    # Hard words are still distinct, and other words are as they were.
    assert len({*read.words}) == 80
    pairs = zip(read.words, spaces.words[side == "target"], strict=True)
    assert all(one == other for one, other in pairs if other.strip("!").isalnum())


def texts_of(tag, page):
    """Return the texts of all elements with a tag that are not nested, without markup in them."""
    inner = re.findall(rf"<{tag}\b.*?>(.*?)</{tag}>", page, re.DOTALL)
    return [html.unescape(re.sub("<[^>]*>", "", text)) for text in inner]


def table_of(name, page):
    """Return the cells of the lines of a table, without its header."""
    _, _, rest = page.partition(f'id="{name}"')
    lines = rest.partition("</table>")[0].split("<tr")[2:]
    return [texts_of("td", re.sub(r"(</?)th\b", r"\1td", line)) for line in lines]


@pytest.fixture(scope="module")
def page(folder):
    return (folder / "report.html").read_text("utf-8")


def test_the_page_has_the_translations(folder, page, spaces, rows):
    listed = read_dictionary(folder.parent / "pairs.txt")
    verdicts = set()
    for k, (line, word) in enumerate(
        zip(table_of("translations", page), spaces.words[0], strict=True)
    ):
        first, *others = rows[10 * k : 10 * k + 10]
        best = [word_of(row["csls"]) for row in (first, *others)]
        assert line[:3] == [str(k + 1), shown(word), shown(best[0])]
        assert line[4] == ", ".join(map(shown, best[1:5]))
        assert (line[5], line[7]) == (shown(word_of(first["coupling"])), first["mutual"])
        if k < 60:
            assert float(line[6]) == pytest.approx(float(first["coupling_share"]), abs=0.0051)
        (right,) = listed.get(word, [""])
        hit = f" (at {best.index(right) + 1})" if right in best else ""
        verdict = f"✗ expected: {shown(right)}{hit}" if right else ""
        assert line[8] == ("✓ right" if right == best[0] else verdict)
        verdicts.add(line[8][:1])
    assert verdicts == {"", "✓", "✗"}


def test_the_page_has_what_the_record_has(folder, page, record):
    lines, score = table_of("accuracy", page), record["accuracy"]["csls"]
    assert [line[0] for line in lines] == ["nearest neighbor", "CSLS", "inverted softmax"]
    low, high = score["intervals_95"]["P@1"]
    assert lines[1][1].split() == [f"{score['P@1']:.3f}", f"{low:.3f}", "to", f"{high:.3f}"]
    assert lines[1][4:] == ["32 of 32", "100.0%"]
    starts = [line[0] for line in table_of("candidates", page)]
    assert starts == [row["start"] for row in record["candidates"]]
    pairs = [int(line[1]) for line in table_of("refinement", page)]
    assert pairs == [step["n_pairs"] for step in record["refinement"]]
    assert f"{record['gw']['gw_cost']:.6g}" in texts_of("dd", page)
    assert any(record["warnings"][0] in text for text in texts_of("p", page))
    assert str(next(folder.parent.glob("<*"))) in texts_of("bdi", page)
    # Fates and methods are explained.
    explained = texts_of("dt", page)
    assert {"nearest neighbor", "CSLS"} <= {*explained}
    for row in record["candidates"]:
        assert any(row["fate"].startswith(term) for term in explained), row["fate"]


def test_the_page_needs_nothing_beside_itself(page):
    """The text of its pictures is text."""
    links = re.findall(r"\b(?:src|href|srcset|data|action|poster)=\"(.*?)\"", page)
    start = "data:image/svg+xml;base64,"
    assert [link[: len(start)] for link in links] == ["data:,", start, start]
    assert not re.findall(r"https?://|@import|url\([^#]| on\w+=", re.sub("<script.*", "", page))
    assert "content=\"default-src 'none';" in page and page.count("<script") == 1
    for link, text in zip(links[1:], ("gw_cost", "#0072b2"), strict=True):
        picture = ElementTree.fromstring(base64.b64decode(link[len(start) :]))
        texts = ["".join(element.itertext()) for element in picture.iterfind(".//{*}text")]
        assert any(text in element for element in texts)


@pytest.mark.slow
def test_large_vocabularies_are_sampled(tmp_path):
    """From the first word to the last, the first words denser."""
    x = np.random.default_rng(0).exponential(size=(3000, 6)) * np.arange(6, 0, -1)
    words = [f"s{i}" for i in range(3000)]
    np.savez(tmp_path / "a.npz", words=np.array(words), vectors=x)
    (tmp_path / "pairs.txt").write_text("".join(f"{word} {word}\n" for word in words[::2]))
    lists = "--dictionary", tmp_path / "pairs.txt", "--output", tmp_path / "out"
    options = "--quiet", "--n-words", 50, "--refine", 0
    assert cli.run("align", *[tmp_path / "a.npz"] * 2, *options, *lists)[0] == 0
    rows = table_of("translations", (tmp_path / "out" / "report.html").read_text("utf-8"))
    ranks = np.array([int(row[0]) for row in rows])
    assert 400 < len(ranks) <= 500 and (ranks[0], ranks[-1]) == (1, 3000)
    assert (np.diff(ranks) > 0).all() and (ranks <= 750).sum() > (ranks > 2250).sum()
    assert sum(row[8] != "" for row in rows) >= 300
