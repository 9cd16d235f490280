"""The report as a page: everything is in it, literally, and nothing else is needed."""

import html
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from helpers.cli import render
from helpers.outcomes import HARD, N, changed, outcome, sides

import gwfast

VOID = {"meta", "link", "input", "br"}
NAMES = ("/data/<script>alert(1).vec", '../$a$ & "fr" #0072b2 id="k".vec')


class Page(HTMLParser):
    """Cells of tables, definitions, attributes; fails where tags are not balanced."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tables, self.attributes, self.texts = [], {}, [], {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.attributes += [(tag, *pair) for pair in attributes]
        if tag in VOID:
            return
        self.open.append(tag)
        if tag == "table":
            self.rows = self.tables[dict(attributes)["id"]] = []
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag, attributes):
        self.attributes += [(tag, *pair) for pair in attributes]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        tag = self.open[-1] if self.open else ""
        self.texts.setdefault(tag, []).append(data)
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def made():
    return outcome(names=NAMES, warnings=["<i>the limit</i> was reached"])


@pytest.fixture(scope="module")
def text(made):
    return render(made)


@pytest.fixture(scope="module")
def parsed(text):
    return Page(text)


def shown(word):
    """What stands for the characters that HTML has no place for."""
    word = re.sub("[\0-\x1f]", lambda found: chr(0x2400 + ord(found.group())), word)
    return word.replace("\ud800", "\\ud800").replace("\x85", "\\u0085")


def test_words_are_literal(made, parsed):
    header, *rows = parsed.tables["translations"]
    names = "rank word CSLS score next plan share mutual dictionary"
    assert header == names.split()
    assert [row[0] for row in rows] == [str(rank) for rank in range(1, N + 1)]
    assert [row[1] for row in rows[: len(HARD)]] == [shown(word) for word in HARD]
    best = made.csls.indices[:, 0]
    targets = made.target.embeddings.words
    assert [row[2] for row in rows] == [shown(targets[row]) for row in best]
    for row, indices in zip(rows, made.csls.indices, strict=True):
        assert row[4] == ", ".join(shown(targets[target]) for target in indices[1:5])


def test_columns_say_what_is_so(made, parsed):
    rows = parsed.tables["translations"][1:]
    assert [row[7] == "yes" for row in rows] == made.mutual.tolist()
    n = made.result.gw.coupling.shape[0]
    plan = made.result.plan
    shares = plan.max(axis=1) / plan.sum(axis=1)
    np.testing.assert_allclose([float(row[6]) for row in rows[:n]], shares, atol=0.0051)
    assert {row[6] for row in rows[n:]} == {""}
    # Every other word is in the dictionary, and its translation has its row.
    for k, (row, found) in enumerate(zip(rows, made.csls.indices, strict=True)):
        if k % 2:
            assert row[8] == ""
        elif found[0] == k:
            assert row[8] == "✓ right"
        else:
            assert row[8].startswith(f"✗ expected: {shown(HARD[k])}!")


def test_wrong_translations_show_what_was_expected(made):
    """One has the right one further down, another nowhere."""
    indices = made.csls.indices.copy()
    indices[10] = np.roll(indices[10], 1)
    indices[12] = np.arange(30, 40)
    wrong = changed(made, csls=made.csls._replace(indices=indices))
    rows = Page(render(wrong)).tables["translations"][1:]
    place = indices[10].tolist().index(10) + 1
    assert place > 1
    assert rows[10][8] == f"✗ expected: {HARD[10]}! (at {place})"
    assert rows[12][8] == f"✗ expected: {HARD[12]}!"


def test_needs_nothing_beside_itself(text, parsed):
    references = [
        value
        for _, name, value in parsed.attributes
        if name in ("src", "href", "xlink:href", "srcset", "data", "action", "poster")
    ]
    assert references
    assert all(re.fullmatch(r"data:,|#[\w-]+", value) for value in references)
    # The names of XML's vocabularies are no addresses.
    names = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r"""https?://[^"'\s]*""", text)) <= names
    assert all(name.startswith("#") for name in re.findall(r"url\(([^)]*)\)", text))
    assert "@import" not in text
    (policy,) = (
        value
        for _, name, value in parsed.attributes
        if name == "content" and "default-src" in value
    )
    assert policy.startswith("default-src 'none';")


def test_one_script_that_is_ours(text, parsed):
    source = Path(gwfast.__file__).parent / "cli" / "templates" / "report.js"
    assert [part.strip() for part in parsed.texts["script"]] == [source.read_text("utf-8").strip()]
    handlers = [name for _, name, _ in parsed.attributes if name.startswith("on")]
    assert handlers == []


def test_ids_are_unique_and_known(parsed):
    ids = [value for _, name, value in parsed.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    for _, name, value in parsed.attributes:
        for reference in re.findall(r"url\(#(.*?)\)", value or ""):
            assert reference in ids
        if name == "xlink:href":
            assert value[1:] in ids


def test_pictures_take_their_colors_from_the_page(text, parsed):
    figures = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(figures) == 2
    for figure in figures:
        inside = re.findall(r"<[^>]*>", figure)
        assert not [tag for tag in inside if re.search("#[0-9a-f]{6}", tag)]
        assert "<text" in figure  # not drawn as curves
    variables = set(re.findall(r"var\((--\w+)\)", text))
    light, dark, *_ = re.findall(r":root \{(.*?)\}", text, re.DOTALL)
    for scheme in (light, dark):
        own = variables - {"--at", "--low", "--high"}
        assert own <= set(re.findall(r"(--\w+):", scheme))
    # A name that looks like a color stays a name.
    assert any("#0072b2" in part for part in parsed.texts["text"])


def test_accuracy(made, parsed):
    header, *rows = parsed.tables["accuracy"]
    assert header == ["method", "P@1", "P@5", "P@10", "words scored", "coverage"]
    assert [row[0] for row in rows] == ["nearest neighbor", "CSLS", "inverted softmax"]
    low, high = made.precision["csls"].interval(1)
    assert rows[1][1].split() == [
        f"{made.precision['csls'].at[1]:.3f}", f"{low:.3f}", "to", f"{high:.3f}",
    ]  # fmt: skip
    assert rows[1][4:] == [f"{N // 2} of {N // 2}", "100.0%"]


def test_solve(made, parsed, text):
    gw = made.result.gw
    assert [row[0] for row in parsed.tables["candidates"][1:]] == [
        row.start for row in gw.candidates
    ]
    assert [row[1] for row in parsed.tables["refinement"][1:]] == [
        str(step.n_pairs) for step in made.result.refinement
    ]
    assert gw.status in parsed.texts["strong"]
    assert f"{gw.gw_cost:.6g}" in parsed.texts["dd"]
    assert any("<i>the limit</i> was reached" in part for part in parsed.texts["p"])
    assert NAMES[0] in parsed.texts["bdi"]
    assert "relative 0.02" in " ".join(parsed.texts["bdi"])
    assert "60 rows" in text


def test_terms_are_explained(made, parsed, text):
    fates = {row.fate for row in made.result.gw.candidates}
    explained = set(parsed.texts["dt"])
    for fate in fates:
        assert any(fate.startswith(term) for term in explained), fate
    assert {"nearest neighbor", "CSLS"} <= explained
    assert "The plan, or coupling, moves masses" in text


def test_without_dictionary_and_refinement():
    bare = outcome(gold=False, refine=0)
    parsed = Page(render(bare))
    assert set(parsed.tables) == {"translations", "candidates"}
    assert "dictionary" not in parsed.tables["translations"][0]
    assert "right: the dictionary has the first" not in parsed.texts["option"]


@pytest.mark.slow
def test_large_vocabularies_are_sampled():
    """From the first word to the last, the first ones denser."""
    source, target = sides(3000, hard=False)
    text = render(outcome(source=source, target=target, n_words=50, refine=0))
    rows = Page(text).tables["translations"][1:]
    ranks = np.array([int(row[0]) for row in rows])
    assert 400 < len(ranks) <= 500
    assert (ranks[0], ranks[-1]) == (1, 3000)
    assert (np.diff(ranks) > 0).all()
    assert (ranks <= 750).sum() > (ranks > 2250).sum()
    assert f"{len(ranks)} of 3,000 words" in text
    # A search must not say of the other words that there are none.
    assert "No word of this sample is like that. All 3,000 words are in" in text
    listed = sum(row[8] != "" for row in rows)
    assert listed >= 300


def test_same_outcome_same_page(made, text):
    """Whatever the user has made matplotlib's pictures look like."""
    theirs = {"font.size": 20, "text.color": "red", "axes.facecolor": "black"}
    with matplotlib.rc_context(theirs):
        assert render(made) == text
        assert matplotlib.rcParams["font.size"] == 20


@pytest.fixture
def browse(tmp_path):
    """What a browser makes of a page, and what it logs."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("needs chromium")

    def call(content, width):
        path = tmp_path / "report.html"
        path.write_bytes(content.encode("utf-8", "backslashreplace"))
        done = subprocess.run(
            [
                browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
                "--enable-logging=stderr", f"--window-size={width},900",
                f"--user-data-dir={tmp_path / 'profile'}", path.as_uri(),
            ],
            capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        return done.stdout.decode("utf-8"), done.stderr.decode()

    return call


@pytest.mark.process
@pytest.mark.parametrize("width", [500, 800, 1200])
def test_in_a_browser(text, browse, width):
    """The script has run, nothing complained, nothing sticks out at the side."""
    measure = (
        "<script>{ const all = document.documentElement, box ="
        " document.querySelector('.box'); all.dataset.out = (all.scrollWidth -"
        " all.clientWidth) + (box.scrollWidth - box.clientWidth); }</script></body>"
    )
    dom, log = browse(text.replace("</body>", measure), width)
    assert f"{N} of {N} shown" in dom
    assert 'data-out="0"' in dom
    assert "CONSOLE" not in log, log


@pytest.mark.process
def test_a_phone_shows_several_words_at_once(text, browse):
    """In a frame, as windows of browsers have a least width."""
    count = (
        "<script>{ const box = document.querySelector('.box'), rows ="
        " [...document.querySelectorAll('#translations tbody tr')];"
        " const height = rows.slice(40, 60).reduce((sum, row) =>"
        " sum + row.offsetHeight, 0) / 20;"
        " parent.document.title = 'words ' + (box.clientHeight / height); }</script>"
        "</body>"
    )
    page = html.escape(text.replace("</body>", count))
    frame = f'<iframe style="width:390px;height:844px" srcdoc="{page}"></iframe>'
    (shown,) = re.findall(r"<title>words ([\d.]+)</title>", browse(frame, 800)[0])
    assert float(shown) > 5  # of these long ones
