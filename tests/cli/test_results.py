"""The files of a result and its page: all is in them, literally, and others can read them."""

import base64
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from helpers import cli
from helpers.files import tree

import gwfast
from gwfast.words import read_dictionary, read_embeddings

FILES = [
    "dictionary.txt", "dynamics.png", "mapping.npz", "report.html", "result.json", "source.vec",
    "target.vec", "translations.tsv",
]  # fmt: skip
UNSAFE = "[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"


def word_of(field):
    return field.encode("latin-1", "backslashreplace").decode("unicode_escape")


def shown(word):
    """The word with escapes for characters that HTML and terminals have no place for."""
    return re.sub(UNSAFE, lambda found: found[0].encode("unicode_escape").decode(), word)


def test_every_line_of_translations_has_its_fields(folder, rows, spaces):
    assert tree(folder) == FILES
    names = "source rank csls csls_score coupling coupling_share mutual"
    assert [*rows[0]] == names.split()
    assert [int(row["rank"]) for row in rows] == [*range(1, 11)] * 80
    assert all(row["coupling"] and 0 < float(row["coupling_share"]) <= 1 for row in rows[:600:10])
    assert not any(row["coupling"] or row["coupling_share"] for row in rows[600:])
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


def test_the_record(folder, record, rows):
    listed = read_dictionary(folder.parent / "pairs.txt")
    gw, settings = record["gw"], record["settings"]
    assert record["versions"]["gwfast"] == gwfast.__version__
    assert settings["epsilon"] == gw["epsilon"] == 0.01
    assert settings["normalize"] == ["unit", "center", "unit"]
    assert settings["methods"] == ["nn", "csls", "inverted_softmax"] == [*record["accuracy"]]
    assert record["plan_shape"] == [60, 60]
    assert record["history"][-1]["iteration"] == len(record["history"]) == gw["n_iter"]
    assert record["mutual_pairs"] == sum(row["mutual"] == "yes" for row in rows)
    for k in (1, 5, 10):
        best = [row for row in rows if int(row["rank"]) <= k]
        hits = [word_of(row["csls"]) in listed.get(word_of(row["source"]), ()) for row in best]
        assert record["accuracy"]["csls"][f"P@{k}"] == pytest.approx(sum(hits) / 32)
    for score in record["accuracy"].values():
        assert (score["coverage"], score["convention"], score["queries"]) == (1, "gwfast", 32)
        assert 0 < score["P@1"] < 1
        # The bounds are the shares from which this share is 1.96 standard errors away.
        for bound in score["intervals_95"]["P@1"]:
            error = np.sqrt(bound * (1 - bound) / 32)
            assert abs(bound - score["P@1"]) == pytest.approx(1.959964 * error)


@pytest.mark.parametrize("side", ["source", "target"])
def test_vectors_are_of_both_sides(folder, spaces, side):
    read = read_embeddings(folder / f"{side}.vec")
    mapped = getattr(spaces, f"mapped_{side}")
    np.testing.assert_allclose(read.vectors, mapped, rtol=1e-6, atol=1e-7)
    # Hard words are still distinct, and other words are as they were.
    assert len({*read.words}) == 80
    pairs = zip(read.words, spaces.words[side == "target"], strict=True)
    assert all(one == other for one, other in pairs if other.strip("!").isalnum())


# --- The page ---------------------------------------------------------------------------


class Page(HTMLParser):
    """Cells of tables, attributes and texts by tag; fails where tags are not balanced."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tables, self.attributes, self.texts = [], {}, [], {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.attributes += [(tag, *pair) for pair in attributes]
        if tag in {"meta", "link", "input", "br", "img"}:
            return
        self.open.append(tag)
        if tag == "table":
            self.rows = self.tables[dict(attributes)["id"]] = []
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)
        if {"td", "th"} & {*self.open}:
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def text(folder):
    return (folder / "report.html").read_text("utf-8")


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_the_page_has_the_translations(folder, page, spaces, rows):
    _, *lines = page.tables["translations"]
    listed = read_dictionary(folder.parent / "pairs.txt")
    verdicts = set()
    for k, (line, word) in enumerate(zip(lines, spaces.words[0], strict=True)):
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
    _, *lines = page.tables["accuracy"]
    assert [line[0] for line in lines] == ["nearest neighbor", "CSLS", "inverted softmax"]
    score = record["accuracy"]["csls"]
    low, high = score["intervals_95"]["P@1"]
    assert lines[1][1].split() == [f"{score['P@1']:.3f}", f"{low:.3f}", "to", f"{high:.3f}"]
    assert lines[1][4:] == ["32 of 32", "100.0%"]
    starts = [line[0] for line in page.tables["candidates"][1:]]
    assert starts == [row["start"] for row in record["candidates"]]
    pairs = [int(line[1]) for line in page.tables["refinement"][1:]]
    assert pairs == [step["n_pairs"] for step in record["refinement"]]
    assert record["gw"]["status"] in page.texts["strong"]
    assert f"{record['gw']['gw_cost']:.6g}" in page.texts["dd"]
    assert any(record["warnings"][0] in part for part in page.texts["p"])
    assert str(next(folder.parent.glob("<*"))) in page.texts["bdi"]
    # Fates and methods are explained.
    explained = {*page.texts["dt"]}
    assert {"nearest neighbor", "CSLS"} <= explained
    for row in record["candidates"]:
        assert any(row["fate"].startswith(term) for term in explained), row["fate"]


def test_the_page_needs_nothing_beside_itself(text, page):
    links = "src", "href", "xlink:href", "srcset", "data", "action", "poster"
    references = [value for _, name, value in page.attributes if name in links]
    assert len(references) == 3
    assert all(re.match("data:(,|image/svg)", value) for value in references)
    assert not re.findall(r"https?://|@import|url\([^#]", text)
    policies = [value for _, _, value in page.attributes if value and "default-src" in value]
    assert [policy.startswith("default-src 'none';") for policy in policies] == [True]
    # One script, which is ours.
    source = Path(gwfast.__file__).parent / "cli" / "templates" / "report.js"
    assert [part.strip() for part in page.texts["script"]] == [source.read_text("utf-8").strip()]
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]


def test_text_of_pictures_stays_text(page):
    pictures = [value for tag, name, value in page.attributes if (tag, name) == ("img", "src")]
    for picture, words in zip(pictures, ("gw_cost", "#0072b2"), strict=True):
        start, _, content = picture.partition(",")
        assert start == "data:image/svg+xml;base64"
        texts = ElementTree.fromstring(base64.b64decode(content)).iterfind(".//{*}text")
        assert any(words in "".join(text.itertext()) for text in texts)


@pytest.mark.slow
def test_large_vocabularies_are_sampled(tmp_path):
    """From the first word to the last, the first words denser."""
    x = np.random.default_rng(0).exponential(size=(3000, 6)) * np.arange(6, 0, -1)
    words = [f"s{i}" for i in range(3000)]
    np.savez(tmp_path / "a.npz", words=np.array(words), vectors=x)
    (tmp_path / "pairs.txt").write_text("".join(f"{word} {word}\n" for word in words[::2]))
    options = "--quiet --n-words 50 --refine 0 --output".split()
    lists = tmp_path / "out", "--dictionary", tmp_path / "pairs.txt"
    assert cli.run("align", *[tmp_path / "a.npz"] * 2, *options, *lists)[0] == 0
    text = (tmp_path / "out" / "report.html").read_text("utf-8")
    rows = Page(text).tables["translations"][1:]
    ranks = np.array([int(row[0]) for row in rows])
    assert 400 < len(ranks) <= 500 and (ranks[0], ranks[-1]) == (1, 3000)
    assert (np.diff(ranks) > 0).all() and (ranks <= 750).sum() > (ranks > 2250).sum()
    # A search must not say of the other words that there are none.
    assert f"{len(ranks)} of 3,000 words" in text and "All 3,000 words are in" in text
    assert sum(row[8] != "" for row in rows) >= 300


@pytest.mark.process
@pytest.mark.parametrize("width", [500, 1200])
def test_in_a_browser(text, tmp_path, width):
    """The script has run, nothing complained, nothing sticks out at the side."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("needs chromium")
    measure = (
        "<script>{ const all = document.documentElement, box ="
        " document.querySelector('.box'); all.dataset.out = (all.scrollWidth -"
        " all.clientWidth) + (box.scrollWidth - box.clientWidth); }</script></body>"
    )
    path = tmp_path / "report.html"
    path.write_text(text.replace("</body>", measure), "utf-8")
    options = "--headless --no-sandbox --disable-gpu --dump-dom --enable-logging=stderr".split()
    options += [f"--window-size={width},900", f"--user-data-dir={tmp_path / 'profile'}"]
    command = [browser, *options, path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "80 of 80 shown" in done.stdout and 'data-out="0"' in done.stdout
    assert "CONSOLE" not in done.stderr, done.stderr
