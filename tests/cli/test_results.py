"""Results of words that are hard to write: their files and page, which hold all of them, literally,
and the commands that read them.
"""

import base64
import html
import json
import re
from types import SimpleNamespace
from unicodedata import normalize
from xml.etree import ElementTree

import numpy as np
import pytest
from helpers.cli import ALIGN, FILES, ask, run, tree
from helpers.problems import rotated_pair

import gwfast
from gwfast.words import read_dictionary, read_embeddings

UNSAFE = "[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
# Texts that could end a script, a tag, an attribute, a line, a field, a template or a file.
MARKUP = r"""</script> &lt; <b>x</b> <!-- --> "onload="alert(1) 'quote' {# $x_1$ \u003c""".split()
SPACED = "{{ 7*7 }}", "{% raw %}", "a b", "a\tb", "c\nd", "e\rf", "\u2028", "\x85", "مرحبا بالعالم"
OTHERS = "null", "=1+1", "\x00\x1b[31m", "a_b", "\ufeffbom", "\ud800", "שלום", "日本語", "हिन्दी"
HARD = *MARKUP, *SPACED, *OTHERS, "e\u202ef", "n\u0303", "👩\u200d👧", "W" * 200
WORDS = [*HARD, *(f"s{i}" for i in range(80 - len(HARD)))]


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    """Return a folder of results, and what its files hold; translations end with an exclamation
    mark. A dictionary has half of the words that a list can hold, every fifth with a wrong
    translation.
    """
    inputs = tmp_path_factory.mktemp("solved")
    folder = inputs / "out"
    x, y, found = rotated_pair(len(WORDS), 6, 7)
    # A name that looks like markup and a color of the pictures.
    sides = inputs / "<script>a.npz", inputs / "$a$ & #0072b2 id=.npz"
    np.savez(sides[0], words=np.array(WORDS), vectors=x)
    np.savez(sides[1], words=np.array([f"{word}!" for word in WORDS]), vectors=y[found])
    listed = [word for word in WORDS[::2] if word.isprintable() and " " not in word]
    lines = [f"{word}\t{listed[k - (k % 5 == 4)]}!\n" for k, word in enumerate(listed)]
    (inputs / "pairs.txt").write_text("".join(lines), encoding="utf-8")
    options = "--n-words 60 --epsilon 0.01 --methods nn,csls,inverted_softmax --vectors text"
    files = "--dictionary", inputs / "pairs.txt", "--output", folder
    status, out, message = run("align", *sides, *files, *options.split(), "--quiet")
    assert status == 0 and f"written\t{folder}" in out, message
    text = (folder / "translations.tsv").read_bytes().decode("utf-8")
    header, *lines = (line.split("\t") for line in text.removesuffix("\n").split("\n"))
    return SimpleNamespace(
        folder=folder,
        page=(folder / "report.html").read_text("utf-8"),
        record=json.loads((folder / "result.json").read_bytes()),
        rows=[dict(zip(header, line, strict=True)) for line in lines],
        spaces=gwfast.Alignment.load(folder),
    )


def word_of(field):
    return field.encode("latin-1", "backslashreplace").decode("unicode_escape")


def shown(word):
    """The word with escapes for characters that HTML and terminals have no place for."""
    return re.sub(UNSAFE, lambda found: found[0].encode("unicode_escape").decode(), word)


def test_every_line_of_translations_has_its_fields(solved):
    rows, (x, y) = solved.rows, solved.spaces.words
    assert tree(solved.folder) == sorted([*FILES, "source.vec", "target.vec"])
    names = "source rank csls csls_score plan plan_share mutual"
    assert [*rows[0]] == names.split()
    assert [int(row["rank"]) for row in rows] == [*range(1, 11)] * 80
    assert all(row["plan"] and 0 < float(row["plan_share"]) <= 1 for row in rows[:600:10])
    assert not any(row["plan"] or row["plan_share"] for row in rows[600:])
    assert len({row["plan"] for row in rows[:10]}) == 10
    # Shares of the mass of a word, not of all mass.
    assert np.mean([float(row["plan_share"]) for row in rows[:600:10]]) > 0.3
    # Each word can be had again, and none ends a line or commands a terminal.
    text = "".join("".join(row.values()) for row in rows)
    assert text == shown(text)
    assert [word_of(row["source"]) for row in rows[::10]] == [*x]
    best = solved.spaces.best_matches(10)
    assert [word_of(row["csls"]) for row in rows] == [y[row] for row in best.forward.indices.flat]
    scores = [float(row["csls_score"]) for row in rows]
    np.testing.assert_allclose(scores, best.forward.scores.ravel(), atol=6e-5)
    mutual = best.mutual
    assert [row["mutual"] for row in rows[::10]] == np.where(mutual, "yes", "no").tolist()
    assert {row["mutual"] for k, row in enumerate(rows) if k % 10} == {""}
    lost = {word for word in x if word != shown(word)}
    assert read_dictionary(solved.folder / "dictionary.txt") == {
        x[i]: {y[j]}
        for i, j in enumerate(best.forward.indices[:, 0])
        if mutual[i] and not {x[i], y[j].removesuffix("!")} & lost
    }


def test_the_record(solved):
    record = solved.record
    gw, settings = record["gw"], record["settings"]
    assert record["versions"]["gwfast"] == gwfast.__version__
    assert settings["epsilon"] == gw["epsilon"] == 0.01
    assert settings["normalize"] == ["unit", "center", "unit"]
    assert settings["methods"] == ["nn", "csls", "inverted_softmax"] == [*record["accuracy"]]
    assert record["plan_shape"] == [60, 60]
    assert {*record["translations"]} <= {*solved.spaces.words[0][:60]}  # which took part
    assert record["history"][-1]["iteration"] == len(record["history"]) == gw["n_iter"]
    assert record["mutual_pairs"] == sum(row["mutual"] == "yes" for row in solved.rows)
    for score in record["accuracy"].values():
        assert (score["coverage"], score["convention"], score["queries"]) == (1, "gwfast", 32)
        # The bounds are the shares from which this share is 1.96 standard errors away.
        bounds = np.array(score["intervals_95"]["P@1"])
        errors = 1.959964 * np.sqrt(bounds * (1 - bounds) / 32)
        np.testing.assert_allclose(bounds + errors * [1, -1], score["P@1"], rtol=1e-6)


def test_vectors_are_of_both_sides(solved):
    mapped = solved.spaces.mapped_source, solved.spaces.mapped_target
    for side, words, vectors in zip(("source", "target"), solved.spaces.words, mapped, strict=True):
        read = read_embeddings(solved.folder / f"{side}.vec")
        np.testing.assert_allclose(read.vectors, vectors, rtol=1e-6, atol=1e-7)
        # Hard words are still distinct, and other words are as they were.
        assert len({*read.words}) == 80
        pairs = zip(read.words, words, strict=True)
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


def test_the_page_has_the_translations(solved):
    listed = read_dictionary(solved.folder.parent / "pairs.txt")
    verdicts = set()
    for k, line in enumerate(table_of("translations", solved.page)):
        word = solved.spaces.words[0][k]
        first, *others = solved.rows[10 * k : 10 * k + 10]
        best = [word_of(row["csls"]) for row in (first, *others)]
        assert line[:3] == [str(k + 1), shown(word), shown(best[0])]
        assert line[4] == ", ".join(map(shown, best[1:5]))
        assert (line[5], line[7]) == (shown(word_of(first["plan"])), first["mutual"])
        if k < 60:
            assert float(line[6]) == pytest.approx(float(first["plan_share"]), abs=0.0051)
        (right,) = listed.get(word, [""])
        hit = f" (at {best.index(right) + 1})" if right in best else ""
        verdict = f"✗ expected: {shown(right)}{hit}" if right else ""
        assert line[8] == ("✓ right" if right == best[0] else verdict)
        verdicts.add(line[8][:1])
    assert k == 79 and verdicts == {"", "✓", "✗"}


def test_the_page_has_what_the_record_has(solved):
    lines, score = table_of("accuracy", solved.page), solved.record["accuracy"]["csls"]
    assert [line[0] for line in lines] == ["nearest neighbor", "CSLS", "inverted softmax"]
    low, high = score["intervals_95"]["P@1"]
    assert lines[1][1].split() == [f"{score['P@1']:.3f}", f"{low:.3f}", "to", f"{high:.3f}"]
    assert lines[1][4:] == ["32 of 32", "100.0%"]
    starts = [line[0] for line in table_of("candidates", solved.page)]
    assert starts == [row["start"] for row in solved.record["candidates"]]
    pairs = [int(line[1]) for line in table_of("refinement", solved.page)]
    assert pairs == [step["n_pairs"] for step in solved.record["refinement"]]
    assert f"{solved.record['gw']['gw_cost']:.6g}" in texts_of("dd", solved.page)
    assert any(solved.record["warnings"][0] in text for text in texts_of("p", solved.page))
    assert str(next(solved.folder.parent.glob("<*"))) in texts_of("bdi", solved.page)
    # Fates and methods are explained.
    explained = texts_of("dt", solved.page)
    assert {"nearest neighbor", "CSLS"} <= {*explained}
    for row in solved.record["candidates"]:
        assert any(row["fate"].startswith(term) for term in explained), row["fate"]
    # The page needs no other file, and the text of its pictures is text.
    page, start = solved.page, "data:image/svg+xml;base64,"
    links = re.findall(r"\b(?:src|href|srcset|data|action|poster)=\"(.*?)\"", page)
    assert [link[: len(start)] for link in links] == ["data:,", start, start]
    assert not re.findall(r"https?://|@import|url\([^#]| on\w+=", re.sub("<script.*", "", page))
    assert "content=\"default-src 'none';" in page and page.count("<script") == 1
    for link, text in zip(links[1:], ("gw_cost", "#0072b2"), strict=True):
        picture = ElementTree.fromstring(base64.b64decode(link[len(start) :]))
        texts = ["".join(element.itertext()) for element in picture.iterfind(".//{*}text")]
        assert any(text in element for element in texts)


def test_the_page_searches_all_words_of_both_sides(solved):
    searched = json.loads(re.search("const all = (.*);", solved.page)[1])
    assert searched["words"] == [[*map(shown, side)] for side in solved.spaces.words]
    best = solved.spaces.best_matches(3)
    assert searched["best"] == [best.forward.indices.tolist(), best.backward.tolist()]


@pytest.mark.parametrize(
    "options, status, mark",
    [
        (["--init", "profile", "--epsilon", 0.01], "converged", "good"),
        # Half of the pairs are wrong.
        (["--seeds", "wrong.txt", "--init", "auto", "--epsilon", 0.01], "uncertain", "unsure"),
        (["--init", "product", "--time-limit", 1e-9], "degenerate", "bad"),
    ],
)
def test_the_page_marks_its_status_and_says_each_text_once(files, options, status, mark):
    pairs = [line.split() for line in (files / "pairs.txt").read_text().splitlines()]
    wrong = zip(pairs[5:20], pairs[9:24], strict=True)
    (files / "wrong.txt").write_text("".join(f"{x} {y}\n" for (x, _), (_, y) in wrong))
    found, _ = ask(*ALIGN[:4], *options, "--output", "out")
    page = (files / "out" / "report.html").read_text("utf-8")
    assert found["gw"]["status"] == status and f'class="{mark}">{status}<' in page
    assert ("<dt>agreement<" in page) == bool(found["evidence"])
    advice = found["gw"]["advice"].partition(";")[0]
    boxes = re.findall('<p class="notice">(.*)</p>', page)
    assert not advice or sum(advice in html.unescape(box) for box in boxes) == 1


@pytest.mark.slow
def test_large_vocabularies_are_sampled(files):
    """From the first word to the last, the first words denser."""
    x = np.random.default_rng(0).exponential(size=(3000, 6)) * np.arange(6, 0, -1)
    words = [f"s{i}" for i in range(3000)]
    np.savez("a.npz", words=np.array(words), vectors=x)
    (files / "pairs.txt").write_text("".join(f"{word} {word}\n" for word in words[::2]))
    options = "--dictionary pairs.txt --output out --quiet --n-words 50 --refine 0"
    assert run("align", "a.npz", "a.npz", *options.split())[0] == 0
    rows = table_of("translations", (files / "out" / "report.html").read_text("utf-8"))
    ranks = np.array([int(row[0]) for row in rows])
    assert 400 < len(ranks) <= 500 and (ranks[0], ranks[-1]) == (1, 3000)
    assert (np.diff(ranks) > 0).all() and (ranks <= 750).sum() > (ranks > 2250).sum()
    assert sum(row[8] != "" for row in rows) >= 300


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_words_are_translated(solved, monkeypatch, direction):
    is_forward = direction == "forward"
    source, target = ("s7", "s7!") if is_forward else ("s7!", "s7")
    arguments = "translate", solved.folder, "--direction", direction
    status, out, message = run(*arguments, source, source.replace("7", "9"), "-k", 3)
    assert (status, message) == (0, "")
    header, *lines = (line.split("\t") for line in out.splitlines())
    assert header == [*solved.rows[0]]
    assert lines[0][:3:2] == [source, target] and "9" in lines[3][0] and "9" in lines[3][2]
    assert [line[1::5] for line in lines] == [["1", "yes"], ["2", ""], ["3", ""]] * 2
    if is_forward:
        assert all(dict(zip(header, line, strict=True)) in solved.rows for line in lines)
    found, message = ask(*arguments, source, "nothing", status=1)
    assert "'nothing'" in message and ("source" in message) == is_forward
    ((word, found),) = found.items()
    assert (word, found["mutual"], len(found["csls"])) == (source, True, 5)
    assert len(found["plan"]) == 5 * is_forward
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    out = run(*arguments, source, "-k", 1)[1]
    assert "translations  " in out and f" {source}  " in out and f" {target} " in out


def test_translations_of_earlier_versions_are_read(solved, tmp_path):
    text = (solved.folder / "translations.tsv").read_text("utf-8")
    (tmp_path / "translations.tsv").write_text(text.replace("\tplan", "\tcoupling"), "utf-8")
    ours, theirs = (run("translate", folder, "s7")[1] for folder in (solved.folder, tmp_path))
    assert theirs == ours


def test_hard_words_are_found_and_do_not_command_the_terminal(solved, monkeypatch):
    asked = [word for word in solved.spaces.words[0] if "\0" not in word and word != "\ud800"]
    found = json.loads(run("translate", solved.folder, "--json", "--", *asked)[1])
    assert [*found] == asked
    words = {row["word"] for best in found.values() for row in best["csls"]}
    assert words <= {*solved.spaces.words[1]}
    for name in ("NO_COLOR", "FORCE_COLOR"):  # the second makes it a terminal
        monkeypatch.setenv(name, "1")
        status, out, message = run("translate", solved.folder, "--", *asked)
        assert (status, message) == (0, "")
        assert not {*"\x85\u2028\u202e"} & {*out} and "\x1b[31m" not in out


def test_saved_results_that_are_not_to_be_trusted_say_so(files):
    """Also if Python has saved them, and to stderr alone."""
    run(*ALIGN, "--time-limit", 1e-9, "--output", "late")
    x, y = (read_embeddings(name) for name in ("a.vec", "b.vec"))
    with pytest.warns(gwfast.ConvergenceWarning):
        gwfast.align(x, y, time_limit=1e-9).save("kept")
    for folder, *commands in (
        ("late", ("translate", "s5"), ("translate", "t5", "--direction", "backward")),
        ("kept", ("evaluate", "--dictionary", "pairs.txt"), ("map", "a.vec")),
    ):
        for command, *rest in commands:
            status, out, message = run(command, folder, *rest)
            assert (status, message.count("\n")) == (0, 1) and out
            assert message.startswith(f"gwfast: warning: {folder}: ") and "'degenerate'" in message


def test_letters_that_an_encoding_lacks_and_other_unicode_forms(files, solved):
    for word in ("日本語", "ñ"):  # the folder has "ñ" as two letters
        status, out, message = run("translate", solved.folder, word, "-k", 1, encoding="cp1252")
        assert (status, message) == (0, "") and "?" not in out
        assert word_of(out.splitlines()[1].split("\t")[2]) == normalize("NFD", f"{word}!")
        (found,) = ask("translate", solved.folder, f"{word}!", "--direction", "backward")[:1]
        found = found[f"{word}!"]
        assert found["csls"][0]["word"] == normalize("NFD", word) and found["mutual"]


def test_a_folder_is_evaluated(files, solved):
    arguments = "evaluate", solved.folder, "--dictionary"
    status, out, message = run(*arguments, solved.folder.parent / "pairs.txt")
    assert (status, message) == (0, "")
    lines = [line.split("\t") for line in out.splitlines()]
    csls = solved.record["accuracy"]["csls"]
    assert [line[0] for line in lines[2:4]] == ["nearest neighbor", "CSLS"]
    bounds = " to ".join(f"{bound:.3f}" for bound in csls["intervals_95"]["P@1"])
    figures = [f"{csls[name]:.3f}" for name in ("P@1", "P@5", "P@10")]
    assert "100.0%" in lines[-1][0]
    assert lines[3][1:] == [figures[0], bounds, *figures[1:], "32 of 32"]
    (files / "few.txt").write_text("s2 s2!\n" + "".join(f"x{i} s7!\n" for i in range(20)))
    options = "right.txt", "--methods", "inverted_softmax"
    for option, line in {"": "s{0} s{0}!\n", "reverse-": "s{0}! s{0}\n"}.items():
        (files / "right.txt").write_text("".join(line.format(i) for i in range(2, 30)))
        found, _ = ask("evaluate", solved.folder, f"--{option}dictionary", *options)
        score = found["accuracy"]["inverted_softmax"]
        assert (score["P@1"], score["queries"], found["warnings"]) == (1.0, 28, [])
    status, _, message = run(*arguments, "few.txt")
    assert status == 0 and "1 of 21 words" in message


@pytest.mark.parametrize("side, name", [("source", "a.vec"), ("target", "b.vec")])
def test_new_vectors_are_mapped(files, solved, side, name):
    given = read_embeddings(files / name)
    arguments = name, "--side", side, "--max-vocab", 9
    told = "new.npz: 9 words, 6 columns\n"
    assert run("map", solved.folder, *arguments, "--output", "new.npz") == (0, told, "")
    assert ask("map", solved.folder, *arguments, "--output", "new.npz", "--force")[0]["words"] == 9
    solved.spaces.save("kept")  # a file that Python has saved
    (files / "piped.vec").write_text(run("map", "kept", *arguments)[1], encoding="utf-8")
    use = solved.spaces.transform if side == "source" else solved.spaces.transform_target
    for written in ("new.npz", "piped.vec"):
        mapped = read_embeddings(files / written)
        assert mapped.words == given.words[:9]
        np.testing.assert_array_equal(mapped.vectors, use(given.vectors[:9]))
