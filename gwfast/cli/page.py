"""The report as a page: one HTML file that needs nothing beside itself.

Here is what it shows, in ``templates/`` how. Words come from outside and are escaped
there. Needs matplotlib and jinja2 (the extra ``cli``).
"""

import io
import os
import warnings
from dataclasses import asdict, is_dataclass
from pathlib import Path
from xml.dom import minidom

import jinja2
import numpy as np
from matplotlib import rc_context, style
from matplotlib.figure import Figure

from .._version import __version__
from ..plot import _style as paint
from ..plot import plot_distance_histograms, plot_dynamics
from ..results.coupling import shares_of
from ..results.status import Status
from .wording import (
    METHOD_LABELS,
    as_options,
    given_start,
    printable,
    right_translations,
    threads_of,
)

# What they are, on the page.
_METHOD_MEANINGS = {
    "coupling": "by the coupling, the plan that the solver found: a table of masses"
    " moved from words to words. The translation is where most of a word's mass goes",
    "barycentric": "nearest by angle to the mean of the words to which the coupling"
    " moves the word, weighted by mass",
    "nn": "nearest by angle to the mapped vector",
    "csls": "nearest by angle to the mapped vector, less how near either word is to"
    " its neighbors: this holds back words that are near to everything",
    "inverted_softmax": "by the probability that the target would be translated back",
}
# Of `Candidate.fate`, by how they begin.
_FATES = {
    "won": "its plan is the result",
    "went on": "among the best of these points: it goes on in a row with more of them",
    "dropped in round": "left in that round, as it was behind by gw_cost, or one of"
    " more than two that were as good",
    "same as": "left, as it was on the way to the same plan as the start named here"
    " (“profile 0.05”, say: words begin matched with those whose similarities to all"
    " others are alike, the more loosely the larger the number)",
    "tie": "another plan, as good as the one that won",
    "lost": "was compared at the end, and had a higher gw_cost",
    "out of time": "the time limit was up",
}
_HIDDEN_SETTINGS = ("output", "force", "quiet", "as_json", "checkpoint")

# Words in the table of translations: of the dictionary, and of all.
_N_LISTED, _N_OTHERS = 300, 200
_N_MORE = 4  # translations after the first
_N_EXPECTED = 5  # translations of the dictionary that are shown
_LONGEST_NAME = 32
_SIZE = (5, 4)  # inches of a picture, at which its text fits a phone

# What a color of a picture is called in the page, which has a light and a dark one.
_VARIABLES = {
    "#000000": "--ink",
    paint.BLUE: "--blue",
    paint.ORANGE: "--orange",
    paint.GREEN: "--green",
    paint.PURPLE: "--purple",
    paint.SKY: "--sky",
    paint.GREY: "--muted",
    paint.GRID: "--line",
}


def render(outcome):
    """The page of an alignment, in HTML; always the same for the same outcome."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("gwfast.cli"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    gw = outcome.result.gw
    names = [_elided(Path(given.name).name) for given in (outcome.source, outcome.target)]
    return environment.get_template("report.html").render(
        version=__version__,
        names=names,
        status=gw.status,
        meaning=Status(gw.status).meaning,
        advice=as_options(gw.advice),
        warnings=outcome.warnings,
        facts=_facts(outcome),
        precision=outcome.precision,
        labels=METHOD_LABELS,
        meanings=_METHOD_MEANINGS,
        translations=_translations(outcome),
        n_words=len(outcome.rows),
        figures=_figures(outcome, names),
        candidates=gw.candidates,
        fates={
            fate: meaning
            for fate, meaning in _FATES.items()
            if any(row.fate.startswith(fate) for row in gw.candidates)
        },
        refined=outcome.result.refinement,
        settings=_settings(outcome),
        number=_number,
    )


def _facts(outcome):
    """Label, value and a remark each."""
    result, gw = outcome.result, outcome.result.gw
    n, m = gw.coupling.shape
    sizes = [len(given.embeddings) for given in (outcome.source, outcome.target)]
    n_inner = sum(step.n_inner for step in gw.history)
    n_mutual, n_rows = int(np.sum(outcome.mutual)), len(outcome.rows)
    facts = [
        ("gw_cost", f"{gw.gw_cost:.6g}", f"at epsilon {gw.epsilon:.3g}"),
        ("marginal error", f"{gw.marginal_error:.1e}", "of a mass of 1"),
        ("iterations", f"{gw.n_iter:,}", f"with {n_inner:,} Sinkhorn iterations"),
        ("words in the transport", f"{n:,} × {m:,}", "the most frequent ones"),
        ("words mapped", f"{sizes[0]:,}", f"onto {sizes[1]:,}"),
        ("mutual pairs", f"{n_mutual:,}", f"{n_mutual / n_rows:.1%} of the words"),
        ("seconds", f"{result.seconds:.1f}", f"on {threads_of(result)}"),
    ]
    if np.isfinite(gw.confidence):
        remark = "that no start leads to a lower gw_cost"
        facts.insert(1, ("confidence", f"{gw.confidence:.2f}", remark))
    elif (start := given_start(outcome.settings)) is not None:
        facts.insert(1, ("start", start, "one start, not searched"))
    score = outcome.precision.get("csls")
    if score is not None and score.n_queries:
        low, high = score.interval(1)
        facts.insert(0, ("P@1, CSLS", f"{score.at[1]:.3f}", f"{low:.3f} to {high:.3f}"))
    return facts


def _translations(outcome):
    """Some words with their translations, and what the dictionary says."""
    x, y = (given.embeddings.words for given in (outcome.source, outcome.target))
    rows, csls, coupling = outcome.rows, outcome.csls, outcome.coupling
    right_of = right_translations(outcome.gold)
    listed = np.flatnonzero(np.isin(rows, [*right_of]))
    chosen = np.union1d(
        _thinned(listed, _N_LISTED),
        _thinned(np.arange(len(rows)), _N_OTHERS + _N_LISTED * (not right_of)),
    ).astype(np.int64)
    shares = shares_of(outcome.result.gw.coupling, coupling)[:, 0]
    made = []
    for i in chosen.tolist():
        row, targets = int(rows[i]), csls.indices[i].tolist()
        right = right_of.get(row, ())
        hits = [k for k, target in enumerate(targets, 1) if target in right]
        verdict = "right" if hits[:1] == [1] else "wrong"
        in_plan = row < len(shares) and shares[row] > 0
        entry = {
            "rank": row + 1,
            "word": x[row],
            "best": y[targets[0]],
            "score": csls.scores[i, 0],
            "more": [y[target] for target in targets[1 : 1 + _N_MORE]],
            "mutual": outcome.mutual[i],
            "plan": (y[coupling.indices[row, 0]], shares[row]) if in_plan else None,
            "verdict": verdict if row in right_of else "unlisted",
            "right_at": hits[0] if hits else None,
            "expected": [y[target] for target in sorted(right)[:_N_EXPECTED]],
        }
        made.append(entry)
    return {"rows": made, "has_list": bool(right_of)}


def _thinned(items, count):
    """At most `count` of the items, from the first to the last, the first ones denser:
    those of frequent words."""
    items = np.asarray(items)
    if len(items) <= count:
        return items
    steps = np.linspace(0, 1, count) ** 2 * (len(items) - 1)
    return items[np.unique(steps.astype(np.int64))]


def _settings(outcome):
    """Names and values, the files first."""
    shown = [("folder", os.getcwd())]  # what relative paths are relative to
    shown += [("source", outcome.source.name), ("target", outcome.target.name)]
    for name, value in vars(outcome.settings).items():
        if name in _HIDDEN_SETTINGS:
            continue
        if is_dataclass(value):
            parts = asdict(value).items()
            value = [f"{key} {part}" for key, part in parts if part is not None]
        if isinstance(value, list | tuple):
            value = ", ".join(map(str, value)) or "none"
        elif isinstance(value, bool):
            value = "yes" if value else "no"
        shown.append((name.replace("_", " "), "default" if value is None else value))
    return shown


def _figures(outcome, names):
    """Pairs of a picture as SVG and what there is to see in it."""
    result, gw = outcome.result, outcome.result.gw
    n, m = gw.coupling.shape
    figures = []
    if gw.history:  # a time limit may have been up before the first iteration
        caption = (
            "gw_cost, the objective, of every outer iteration; below, what it changed,"
            " and how far the plan is from its marginals, the masses that its rows and"
            " columns should have."
        )
        figures.append((_svg("dynamics", plot_dynamics, gw.history), caption))
    histograms = _svg(
        "histograms", plot_distance_histograms,
        result.source.rows[:n], result.target.rows[:m], names,
    )  # fmt: skip
    caption = (
        "Similarities within each language, of the normalized vectors that took part."
        " The more the two curves differ, the less there is to go by."
    )
    return [*figures, (histograms, caption)]


def _svg(name, plot, *data):
    """A picture to stand in the page: its text stays text, its colors are the page's.

    The same bytes for the same data, whatever the user's settings of matplotlib are.
    """
    stream = io.StringIO()
    with style.context("default"), warnings.catch_warnings():
        # The browser will find a font for what the one that measures lacks.
        warnings.filterwarnings("ignore", "Glyph", UserWarning)
        figure = plot(*data, figure=Figure(figsize=_SIZE, layout="constrained"))
        # Ids that something refers to are hashes, with this salt: no other picture's.
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
            no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
            figure.savefig(stream, format="svg", transparent=True, metadata=no_metadata)
    svg = minidom.parseString(stream.getvalue()).documentElement
    for size in ("width", "height"):
        svg.removeAttribute(size)
    for rules in svg.getElementsByTagName("style"):  # would be those of the page
        rules.parentNode.removeChild(rules)
    for element in svg.getElementsByTagName("*"):
        if element.tagName == "g" and element.hasAttribute("id"):
            element.removeAttribute("id")  # figure_1, as every picture has
        if element.hasAttribute("style"):
            painted = element.getAttribute("style")
            for color, variable in _VARIABLES.items():
                painted = painted.replace(color, f"var({variable})")
            element.setAttribute("style", painted)
    return svg.toxml()


def _elided(name):
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _number(value, form):
    """A number, or a dash for one that there is not."""
    return format(value, form) if np.isfinite(value) else "–"
