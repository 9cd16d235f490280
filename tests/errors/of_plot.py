"""Refusals of pictures. No file is written."""

import functools
from types import SimpleNamespace

import numpy as np
from matplotlib.figure import Figure

from gwfast import plot


def refused(picture, data, options, folder):
    try:
        getattr(plot, f"plot_{picture}")(*data, **options, path=folder / "picture.png")
    finally:
        assert not [*folder.iterdir()]


ONE, THREE = np.ones((1, 1)), np.arange(12.0).reshape(4, 3)
FLAT = THREE[:, :2]
DISTANCES = np.array([[0, 1, 3, 9], [1, 0, 5, 9], [3, 5, 0, 9], [9, 9, 9, 0]], float)
UPPER, NAMES = np.triu(DISTANCES), ["es", "pt", "fr", "fi"]
STEPS = [SimpleNamespace(gw_cost=1.0, change=0.1, marginal_error=0.1)] * 3
AXES, FREE = Figure().subplots(1, 3), Figure().add_axes((0, 0, 1, 1))
CALLS = [
    ("dynamics", [[]], {}, "history", "none"),
    ("dynamics", [STEPS], {"accuracy_history": [1, 2]}, "accuracy_history", "(2,)"),
    ("dynamics", [{"a": STEPS}], {"accuracy_history": [1]}, "accuracy_history", "[1]"),
    ("dynamics", [STEPS], {"ax": FREE}, "ax", "2 Axes, got 1"),
    ("distances", [DISTANCES, NAMES], {"ax": AXES[:2]}, "ax", "1 Axes, got 2"),
    ("distances", [DISTANCES, NAMES], {"ax": Figure()}, "ax", "Figure", TypeError),
    ("distances", [DISTANCES, NAMES], {"ax": FREE, "figure": Figure()}, "figure", "ax"),
    ("distances", [np.nan * ONE, ["a"]], {}, "matrix", "finite"),
    ("distances", [DISTANCES, "es"], {}, "names", "4 names, got 1"),
    ("candidates", [[]], {}, "candidates", "none"),
    ("distance_histograms", [THREE, ONE], {}, "y", 1),
    *(
        (name, [np.where(DISTANCES > 3, np.inf, DISTANCES)], {}, "matrix", "k_nearest")
        for name in ("distances", "dendrogram", "embedding")
    ),
    ("dendrogram", [ONE, ["a"]], {}, "matrix", 1),
    ("dendrogram", [UPPER, NAMES], {}, "matrix", "9 at [0, 3]"),
    ("dendrogram", [-DISTANCES, NAMES], {}, "matrix", "-9 at"),
    ("dendrogram", [DISTANCES + 5 * np.eye(4), NAMES], {}, "matrix", "5 at [0, 0]"),
    ("embedding", [UPPER], {}, "matrix", "9 at [0, 3]"),
    ("plan", [-DISTANCES], {}, "plan", -9),
    ("plans", [{}], {}, "plans", "[]"),
    ("plans", [{"a": ONE, "b": DISTANCES}], {}, "plans", "(1, 1)"),
    ("aligned", [THREE, FLAT], {}, "y", "3 and 2"),
    ("aligned", [THREE, THREE], {"words": ["casa"]}, "x", "array"),
    ("slices", [THREE, FLAT, FLAT], {}, "moved", "(4, 3)"),
    ("slices", [FLAT, FLAT, FLAT[:3]], {}, "moved", "(3, 2)"),
]
ROWS = [(functools.partial(refused, *call[:3]), *call[3:]) for call in CALLS]
