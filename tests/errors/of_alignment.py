"""Refusals of alignments, maps and the estimator."""

import functools

import numpy as np
from helpers.refusals import refused, row

import gwfast

NINE = np.random.default_rng(0).standard_normal((9, 3))


def align(x=NINE, y=NINE, **options):
    return gwfast.align(x, y, **{"init": "product", "epsilon": 0.5} | options)


@functools.cache
def aligned():
    return align(NINE, NINE[:8, :2], n_words=7)


def named():
    return aligned().with_words("abcdefghi", "ABCDEFGH")


def loaded(folder, **options):
    named().save(folder / "a", **options)
    return gwfast.Alignment.load(folder / "a")


def fit(*shapes, **options):
    return gwfast.GromovWassersteinAligner(**options).fit(*map(np.ones, shapes))


def translate(items=(3,), **options):
    return aligned().translate(items, **options)


ROWS = [
    *refused(
        align, x={"row 0, 1, 2": np.ones((3, 2))}, y={"n_features=1": NINE[:, :1]}, refine=[-1]
    ),
    *refused(align, TypeError, x={"read_embeddings": "es.vec"}, refine=[True]),
    *refused(align, TypeError, normalize={"unit": "unit"}),
    *refused(align, normalize={"mean": ("mean", "unit")}, p=["zip"]),
    (lambda: align(q=np.ones(7), n_words=8), "q", "(8,) or (9,), got (7,)"),
    (lambda: gwfast.PointCloud(np.zeros((4, 2)), "dot").scaled_by("mean"), "mean", 0),
    (lambda: gwfast.procrustes(NINE, NINE[:4]), "y", 4),
    (lambda: gwfast.nearest_neighbors(NINE, NINE[:, :2]), "targets", 2),
    (lambda: aligned().refine(-1), "rounds", -1),
    *refused(translate, direction=["back"], method=["mean"]),
    *refused(translate, items={"empty": [], 2: [[1.0, 2.0]]}),
    *refused(translate, TypeError, items={"float64": [0.5]}),
    row(translate, "items", [7], 7, method="barycentric"),
    row(translate, "items", "A", "target", direction="backward"),
    (lambda: named().translate(["a", "z", "y"]), "items", "'z' and 1 more"),
    (lambda: named().translate(["a", "z"], unknown="skip"), "unknown", "skip"),
    (lambda: aligned().evaluate({"a": {"A"}}), "words", "with_words"),
    (lambda: aligned().with_words("abcdefghi", "ABC"), "target", 3),
    (lambda: aligned().with_words(range(9), "ABCDEFGH"), "source", "int", TypeError),
    (lambda: named().evaluate({}, methods="csls"), "methods", "csls", TypeError),
    (lambda folder: loaded(folder).evaluate({}, methods=["plan"]), "methods", "plan"),
    (lambda folder: loaded(folder).translate(method="plan"), "gw", "save"),
    (lambda folder: loaded(folder).plan, "gw", "no plan"),
    (lambda folder: loaded(folder).gw.save(folder / "b"), "gw", "no plan"),
    (lambda folder: loaded(folder, rows=False).translate(), "rows", False),
    (lambda folder: gwfast.Alignment.load(folder), "path", "without mapping.npz"),
    (lambda: gwfast.GromovWassersteinAligner().set_params(words=3), "parameter", "words"),
    (lambda: fit((9, 3), (9, 3), retrieval="best"), "retrieval", "best"),
    (lambda: fit((9, 3), (9, 1)), "feature", "1 feature(s)"),
]
