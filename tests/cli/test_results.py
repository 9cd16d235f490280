"""The files of a result and its page: all is in them, literally, and others can read them."""

import base64
import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from helpers.cli import ALIGN, HARD, N, main
from helpers.files import tree

import gwfast
from gwfast.words import read_dictionary, read_embeddings

FILES = [
    "dictionary.txt", "dynamics.png", "mapping.npz", "report.html", "result.json", "source.vec",
    "target.vec", "translations.tsv",
]  # fmt: skip
N_HARD = 80
UNSAFE = "[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"


def word_of(field):
    return field.encode("latin-1", "backslashreplace").decode("unicode_escape")


def shown(word):
    """The word with escapes for characters that HTML and terminals have no place for."""
    return re.sub(UNSAFE, lambda found: found[0].encode("unicode_escape").decode(), word)


def table(folder):
    text = (folder / "translations.tsv").read_bytes().decode("utf-8")
    header, *rows = (line.split("\t") for line in text.removesuffix("\n").split("\n"))
    return header, rows


@pytest.fixture(scope="module")
def spaces(hard):
    return gwfast.Alignment.load(hard)


@pytest.fixture(scope="module")
def result(hard):
    return json.loads((hard / "result.json").read_bytes())


def csls_best(x, y, hood=10):
    """Best target of every source and best source of every target, in float64."""
    x, y = (z / np.linalg.norm(z, axis=1, keepdims=True) for z in (x, y))
    cosine = x.astype(np.float64) @ y.T
    own, other = (np.sort(z, axis=1)[:, -hood:].mean(axis=1) for z in (cosine, cosine.T))
    csls = 2 * cosine - own[:, None] - other
    return csls.argmax(axis=1), csls.argmax(axis=0)


# --- Files ------------------------------------------------------------------------------


def test_every_line_of_translations_has_its_fields(hard, spaces):
    assert tree(hard) == FILES
    header, rows = table(hard)
    names = "source rank csls csls_score coupling coupling_share mutual"
    assert header == names.split()
    assert [int(row[1]) for row in rows] == [*range(1, 11)] * N_HARD
    assert all(row[4] and 0 < float(row[5]) <= 1 for row in rows[:600:10])
    assert not any(row[4] or row[5] for row in rows[600:])
    # Each word can be had again, and none ends a line or commands a terminal.
    text = "".join("".join(row) for row in rows)
    assert text == shown(text)
    x, y = spaces.words
    assert [word_of(row[0]) for row in rows[::10]] == [*x]
    assert {word_of(row[2]) for row in rows} <= {*y}
    forward, backward = csls_best(spaces.mapped_source, spaces.mapped_target)
    assert [word_of(row[2]) for row in rows[::10]] == [y[row] for row in forward]
    mutual = backward[forward] == np.arange(N_HARD)
    assert [row[6] for row in rows[::10]] == np.where(mutual, "yes", "no").tolist()
    assert {row[6] for k, row in enumerate(rows) if k % 10} == {""}
    lost = {word for word in HARD if word != shown(word)}
    assert read_dictionary(hard / "dictionary.txt") == {
        x[i]: {y[j]}
        for i, j in enumerate(forward)
        if mutual[i] and not {x[i], y[j].removesuffix("!")} & lost
    }


def test_the_record(hard, result):
    versions, settings = result["versions"], result["settings"]
    assert versions["gwfast"] == gwfast.__version__
    assert settings["epsilon"] == result["gw"]["epsilon"] == 0.01
    assert settings["normalize"] == ["unit", "center", "unit"]
    assert settings["methods"] == ["nn", "csls", "inverted_softmax"] == [*result["accuracy"]]
    assert result["plan_shape"] == [60, 60]
    assert result["history"][-1]["iteration"] == len(result["history"]) == result["gw"]["n_iter"]
    assert result["mutual_pairs"] == sum(row[6] == "yes" for row in table(hard)[1])
    for score in result["accuracy"].values():
        assert score["coverage"] == 1.0 and score["convention"] == "gwfast"
        assert 0 <= score["P@1"] <= score["P@5"] <= score["P@10"] <= 1
        # The bounds are the shares from which this share is 1.96 standard errors away.
        for bound in score["intervals_95"]["P@1"]:
            if bound != score["P@1"]:
                error = np.sqrt(bound * (1 - bound) / score["queries"])
                assert abs(bound - score["P@1"]) == pytest.approx(1.959964 * error)


def test_mapping_and_vectors_are_of_both_sides(hard, spaces):
    with np.load(hard / "mapping.npz") as arrays:
        for side in ("source", "target"):
            with np.load(next(hard.parent.glob("<*" if side == "source" else "$*"))) as given:
                x = given["vectors"]
            means = iter(arrays[f"{side}_means"])
            for step in arrays[f"{side}_steps"].tolist():
                x = x - next(means) if step == "center" else x
                x = x / np.linalg.norm(x, axis=1, keepdims=True) if step == "unit" else x
            name = "mapping" if side == "source" else "target_mapping"
            mapped = getattr(spaces, f"mapped_{side}")
            np.testing.assert_allclose(x @ arrays[name], mapped, atol=1e-5)
            read = read_embeddings(hard / f"{side}.vec")
            np.testing.assert_allclose(read.vectors, mapped, rtol=1e-6, atol=1e-7)
            # Hard words are still distinct, and other words are as they were.
            assert len({*read.words}) == N_HARD
            pairs = zip(read.words, spaces.words[side == "target"], strict=True)
            assert all(one == other for one, other in pairs if other.strip("!").isalnum())


@pytest.mark.slow
def test_spaces_become_underscores_in_files_of_vectors(run, files):
    x = read_embeddings(files / "a.vec")
    np.savez(files / "c.npz", words=np.array(["a b", *x.words[1:]]), vectors=x.vectors)
    options = "--init", "profile", "--quiet", "--output", "out", "--vectors"
    assert run("align", "c.npz", "b.vec", *options, "binary")[0] == 0
    assert read_embeddings(files / "out" / "source.bin").words == ("a_b", *x.words[1:])


# --- The page ---------------------------------------------------------------------------


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
        if tag in {"meta", "link", "input", "br", "img"}:
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
        if {"td", "th"} & {*self.open}:
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def text(hard):
    return (hard / "report.html").read_text("utf-8")


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_the_page_has_what_the_files_have(hard, page, result, spaces):
    header, *rows = page.tables["translations"]
    assert header == "rank word CSLS score next plan share mutual dictionary".split()
    assert [row[0] for row in rows] == [str(rank) for rank in range(1, N_HARD + 1)]
    assert [row[1] for row in rows] == [shown(word) for word in spaces.words[0]]
    listed = read_dictionary(hard.parent / "pairs.txt")
    lines = table(hard)[1]
    for k, (row, word) in enumerate(zip(rows, spaces.words[0], strict=True)):
        best = [word_of(line[2]) for line in lines[10 * k : 10 * k + 10]]
        assert row[2] == shown(best[0])
        assert row[4] == ", ".join(map(shown, best[1:5]))
        assert (row[5], row[7]) == (shown(word_of(lines[10 * k][4])), lines[10 * k][6])
        if k < 60:
            assert float(row[6]) == pytest.approx(float(lines[10 * k][5]), abs=0.0051)
        if word not in listed:
            assert row[8] == ""
        elif best[0] in listed[word]:
            assert row[8] == "✓ right"
        else:
            at = f" (at {best.index(f'{word}!') + 1})" if f"{word}!" in best else ""
            assert row[8] == f"✗ expected: {word}!{at}"
    header, *rows = page.tables["accuracy"]
    assert header == ["method", "P@1", "P@5", "P@10", "words scored", "coverage"]
    assert [row[0] for row in rows] == ["nearest neighbor", "CSLS", "inverted softmax"]
    score = result["accuracy"]["csls"]
    low, high = score["intervals_95"]["P@1"]
    assert rows[1][1].split() == [f"{score['P@1']:.3f}", f"{low:.3f}", "to", f"{high:.3f}"]
    assert rows[1][4:] == [f"{len(listed)} of {len(listed)}", "100.0%"]
    starts = [row[0] for row in page.tables["candidates"][1:]]
    assert starts == [row["start"] for row in result["candidates"]]
    pairs = [int(row[1]) for row in page.tables["refinement"][1:]]
    assert pairs == [step["n_pairs"] for step in result["refinement"]]
    assert result["gw"]["status"] in page.texts["strong"]
    assert f"{result['gw']['gw_cost']:.6g}" in page.texts["dd"]
    assert any("less than 300 words" in part for part in page.texts["p"])
    assert str(next(hard.parent.glob("<*"))) in page.texts["bdi"]
    # Fates, methods and the plan are explained.
    explained = {*page.texts["dt"]}
    assert {"nearest neighbor", "CSLS"} <= explained
    for row in result["candidates"]:
        assert any(row["fate"].startswith(term) for term in explained), row["fate"]
    assert any("The plan, or coupling, moves masses" in part for part in page.texts["p"])


def test_the_page_needs_nothing_beside_itself(text, page):
    links = "src", "href", "xlink:href", "srcset", "data", "action", "poster"
    references = [value for _, name, value in page.attributes if name in links]
    assert references
    assert all(re.match("data:(,|image/svg)", value) for value in references)
    assert not re.findall(r"""https?://[^"'\s]*""", text)
    assert all(name.startswith("#") for name in re.findall(r"url\(([^)]*)\)", text))
    assert "@import" not in text
    policies = [value for _, _, value in page.attributes if value and "default-src" in value]
    assert [policy.startswith("default-src 'none';") for policy in policies] == [True]
    # One script, which is ours.
    source = Path(gwfast.__file__).parent / "cli" / "templates" / "report.js"
    assert [part.strip() for part in page.texts["script"]] == [source.read_text("utf-8").strip()]
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len({*ids})


def test_text_of_pictures_stays_text(hard, page):
    pictures = [value for tag, name, value in page.attributes if (tag, name) == ("img", "src")]
    assert len(pictures) == 2
    for picture, words in zip(pictures, ("gw_cost", "#0072b2"), strict=True):
        start, _, content = picture.partition(",")
        assert start == "data:image/svg+xml;base64"
        texts = ElementTree.fromstring(base64.b64decode(content)).iterfind(".//{*}text")
        assert any(words in "".join(text.itertext()) for text in texts)


def test_the_same_solve_makes_the_same_page(run, files):
    """Without dictionary and refinement, and with pictures of the user's style."""
    options = "--threads", 1, "--refine", 0, "--output"
    assert run(*ALIGN, *options, "out")[0] == 0
    page = Page(first := (files / "out" / "report.html").read_text("utf-8"))
    assert {*page.tables} == {"translations"}
    assert "dictionary" not in page.tables["translations"][0]
    assert "right: the dictionary has the first" not in page.texts["option"]
    with matplotlib.rc_context({"font.size": 20, "text.color": "red"}):
        assert run(*ALIGN, *options, "out", "--force")[0] == 0
    again = (files / "out" / "report.html").read_text("utf-8")
    seconds = re.compile(r"<dt>seconds</dt><dd>[\d.]+")
    assert seconds.sub("", again) == seconds.sub("", first)


@pytest.mark.slow
def test_large_vocabularies_are_sampled(tmp_path):
    """From the first word to the last, the first words denser."""
    x = np.random.default_rng(0).exponential(size=(3000, 6)) * np.arange(6, 0, -1)
    words = [f"s{i}" for i in range(3000)]
    np.savez(tmp_path / "a.npz", words=np.array(words), vectors=x)
    pairs = "".join(f"{word} {word}\n" for word in words[::2])
    (tmp_path / "pairs.txt").write_text(pairs)
    options = ["--quiet", "--n-words", "50", "--refine", "0", "--output", str(tmp_path / "out")]
    sides = [str(tmp_path / "a.npz")] * 2
    assert main(["align", *sides, *options, "--dictionary", str(tmp_path / "pairs.txt")]) == 0
    text = (tmp_path / "out" / "report.html").read_text("utf-8")
    rows = Page(text).tables["translations"][1:]
    ranks = np.array([int(row[0]) for row in rows])
    assert 400 < len(ranks) <= 500
    assert (ranks[0], ranks[-1]) == (1, 3000)
    assert (np.diff(ranks) > 0).all()
    assert (ranks <= 750).sum() > (ranks > 2250).sum()
    assert f"{len(ranks)} of 3,000 words" in text
    # A search must not say of the other words that there are none.
    assert "No word of this sample is like that. All 3,000 words are in" in text
    assert sum(row[8] != "" for row in rows) >= 300


@pytest.fixture
def browse(tmp_path):
    """Return a function that renders a page in a browser, for its content and its log."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("needs chromium")

    def call(content, width):
        path = tmp_path / "report.html"
        path.write_text(content, "utf-8")
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
    assert f"{N_HARD} of {N_HARD} shown" in dom
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


# --- What a folder of results is good for -----------------------------------------------


def test_hard_words_are_found_and_do_not_command_the_terminal(run, hard, monkeypatch):
    asked = [word for word in HARD if "\0" not in word and word != "\ud800"]
    status, out, _ = run("translate", hard, "--json", "--", *asked)
    found = json.loads(out)
    assert status == 0 and [*found] == asked
    words = {f"{word}!" for word in [*HARD, *(f"s{i}" for i in range(N_HARD))]}
    assert {row["word"] for one in found.values() for row in one["csls"]} <= words
    for terminal in (False, True):
        if terminal:
            monkeypatch.setenv("FORCE_COLOR", "1")
            monkeypatch.setenv("NO_COLOR", "1")
        status, out, err = run("translate", hard, "--", *asked)
        assert (status, err) == (0, "")
        assert not {*"\x85\u2028\u202e"} & {*out}
        assert "\x1b[31m" not in out


@pytest.mark.parametrize("direction, letters", [("forward", "st"), ("backward", "ts")])
def test_words_are_translated(run, saved, monkeypatch, direction, letters):
    source, target = letters
    arguments = "translate", saved, "--direction", direction
    status, out, err = run(*arguments, f"{source}7", f"{source}9", "-k", 3)
    assert (status, err) == (0, "")
    header, *rows = (line.split("\t") for line in out.splitlines())
    assert header == table(saved)[0]
    assert [row[:3:2] for row in rows[::3]] == [[f"{source}{i}", f"{target}{i}"] for i in (7, 9)]
    assert [row[1] for row in rows] == ["1", "2", "3"] * 2
    assert [row[6] for row in rows] == ["yes", "", ""] * 2
    if direction == "forward":
        assert {*map("\t".join, rows)} < {*map("\t".join, table(saved)[1])}
    status, out, err = run(*arguments, f"{source}9", "nothing", "--json")
    assert status == 1
    side = {"s": "source", "t": "target"}[source]
    assert err == f"gwfast: 'nothing' is not among the {side} words\n"
    found = json.loads(out)
    assert [*found] == [f"{source}9"]
    assert len(found[f"{source}9"]["csls"]) == 5 and found[f"{source}9"]["mutual"] is True
    # The cloud and its rotated copy match one to one, and the plan is sharp.
    shares = [row["share"] for row in found[f"{source}9"]["coupling"]]
    assert len(shares) == 5 * (direction == "forward") and all(s > 0.5 for s in shares[:1])
    assert run(*arguments, "nothing")[:2] == (1, "")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    out = run(*arguments, f"{source}7", "-k", 1)[1]
    assert "translations  " in out and f" {source}7          1   {target}7 " in out


def test_a_folder_is_evaluated(run, files, saved):
    arguments = "evaluate", saved, "--dictionary", "pairs.txt"
    status, out, err = run(*arguments)
    assert (status, err) == (0, "")
    lines = [line.split("\t") for line in out.splitlines()]
    assert [line[0] for line in lines[2:4]] == ["nearest neighbor", "CSLS"]
    assert lines[3][1:] == ["1.000", "0.940 to 1.000", "1.000", "1.000", f"{N} of {N}"]
    assert "convention gwfast: the vocabularies cover 100.0% of the list's words" in out
    status, again, _ = run("evaluate", saved, "--reverse-dictionary", "turned.txt")
    assert (status, again) == (0, out)
    found = json.loads(run(*arguments, "--methods", "inverted_softmax", "--json")[1])
    assert found["accuracy"]["inverted_softmax"]["P@1"] == 1.0 and found["warnings"] == []
    for name, told in (
        ("turned.txt", "more pairs fit the other way round"),
        ("other.txt", "dictionary: only 1 of 22 words have a pair in the vocabularies: is it of"),
    ):
        lines = "s5 t5\n" if name == "turned.txt" else "".join(f"x{i} t1\n" for i in range(20))
        (files / name).write_text((files / name).read_text() + lines + "s5 t5\n")
        for command in (("evaluate", saved), ALIGN):
            status, _, err = run(*command, "--dictionary", name)
            assert status == 0 and told in err


@pytest.mark.parametrize("side", ["source", "target"])
def test_new_vectors_are_mapped(run, files, saved, side):
    name = {"source": "a.vec", "target": "b.vec"}[side]
    given = read_embeddings(files / name)
    arguments = "map", saved, name, "--side", side, "--max-vocab", 9
    status, out, err = run(*arguments, "--output", "new.npz")
    assert (status, out, err) == (0, "new.npz: 9 words, 6 columns\n", "")
    mapped = read_embeddings(files / "new.npz")
    assert mapped.words == given.words[:9]
    spaces = gwfast.Alignment.load(saved / "mapping.npz")
    spaces.save("kept")  # a file that Python has saved
    assert run("map", "kept", *arguments[2:])[1] == run(*arguments)[1]
    use = spaces.transform if side == "source" else spaces.transform_target
    np.testing.assert_array_equal(mapped.vectors, use(given.vectors[:9]))
    status, out, err = run(*arguments)
    (files / "piped.vec").write_text(out, encoding="utf-8")
    piped = read_embeddings(files / "piped.vec")
    assert (status, err, piped.words) == (0, "", mapped.words)
    np.testing.assert_array_equal(piped.vectors, mapped.vectors)
    status, out, _ = run(*arguments, "--output", "new.npz", "--force", "--json")
    assert json.loads(out)["words"] == 9


@pytest.mark.parametrize("name", ["c.bin", "c.vec.gz"])
def test_convert(run, files, name):
    status, out, err = run("convert", "a.vec", name, "--max-vocab", 7)
    assert (status, out, err) == (0, f"{name}: 7 words, 6 columns\n", "")
    given, made = read_embeddings(files / "a.vec"), read_embeddings(files / name)
    assert made.words == given.words[:7]
    np.testing.assert_array_equal(made.vectors, given.vectors[:7])
    content = (files / name).read_bytes()
    status, _, err = run("convert", "a.vec", name)
    assert status == 2 and f"DST must not exist without --force, got {name}" in err
    assert (files / name).read_bytes() == content
    status, out, _ = run("convert", "a.vec", name, "--force", "--json")
    assert status == 0 and json.loads(out)["words"] == N
    assert len(read_embeddings(files / name)) == N
