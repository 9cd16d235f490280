"""Results in the wording of ``templates/``: text for the terminal, and a page in HTML."""

import base64
import io
import warnings
from pathlib import Path

import jinja2
import numpy as np

from ..kernels._rows import openmp_version
from ..results.status import Status
from ..utils.progress import console
from ..words.evaluation import CONVENTIONS
from .options import METHODS
from .outcome import thinned
from .terminal import literal


def rendered(name, **data):
    """Return a template with data in it."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("gwfast.cli"),
        autoescape=jinja2.select_autoescape(["html"]),
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: literal(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    out = console()
    environment.globals.update(
        labels=METHODS,
        conventions=CONVENTIONS,
        has_openmp=openmp_version() > 0,
        wide=out.width >= 72 or not out.is_terminal,
        signs=("✓", "✗") if out.encoding.startswith("utf") else ("+", "-"),
        plus_minus="±" if out.encoding.startswith("utf") else "+-",
        number=lambda value, form: "-" if value is None else format(value, form),
    )
    return environment.get_template(name).render(data)


def page(outcome, facts):
    """Return an `Outcome` and its summary `facts` as a page, always the same for the same data."""
    from ..plot import plot_distance_histograms, plot_dynamics

    result, n_others = outcome.result, 200 if outcome.right else 500
    n, m = result.n_words
    names = [Path(side.name).name[:32] for side in (outcome.source, outcome.target)]
    # Frequent words are denser.
    listed = thinned(np.flatnonzero(np.isin(outcome.rows, [*outcome.right])), 300, power=2)
    chosen = np.union1d(listed, thinned(np.arange(len(outcome.rows)), n_others, power=2))
    rows = result.source.rows[:n], result.target.rows[:m]
    history = result.gw.history  # a time limit may have ended the solve before the first iteration
    return rendered(
        "report.html",
        **facts,
        names=names,
        meaning=Status(result.gw.status).meaning,
        entries=[*outcome.entries(chosen.astype(np.int64))],
        n_words=len(outcome.rows),
        searched={
            "words": [
                [*map(literal, side.embeddings.words)] for side in (outcome.source, outcome.target)
            ],
            "best": [outcome.csls.indices[:, :3].tolist(), outcome.backward.tolist()],
        },
        has_list=bool(outcome.right),
        dynamics=_picture("dynamics", plot_dynamics, history) if history else "",
        histograms=_picture("histograms", plot_distance_histograms, *rows, names),
    )


def _picture(name, plot, *data):
    """Return the address of a picture that holds the picture: the same for any matplotlibrc."""
    from matplotlib import style
    from matplotlib.figure import Figure

    stream = io.BytesIO()
    text_and_ids = {"svg.fonttype": "none", "svg.hashsalt": name}
    with style.context(["default", text_and_ids]), warnings.catch_warnings():
        # The browser will find a font for characters that the measuring font lacks.
        warnings.filterwarnings("ignore", "Glyph", UserWarning)
        figure = plot(*data, figure=Figure(figsize=(5, 4), layout="constrained"))
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(stream.getvalue()).decode()
