"""Refusals of alignments, maps and the estimator."""

import functools

import numpy as np

import gwfast

NINE = np.random.default_rng(0).standard_normal((9, 3))
align = functools.partial(gwfast.align, init="product", epsilon=0.5)


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


ROWS = [
    (lambda: align("es.vec", NINE), "x", "read_embeddings", TypeError),
    (lambda: align(np.ones((3, 2)), NINE), "x", "row 0, 1, 2"),
    (lambda: align(NINE, NINE[:, :1]), "y", "n_features=1"),
    (lambda: align(NINE, NINE, normalize="unit"), "normalize", "unit", TypeError),
    (lambda: align(NINE, NINE, normalize=("mean", "unit")), "normalize", "mean"),
    (lambda: align(NINE, NINE, refine=True), "refine", "bool", TypeError),
    (lambda: align(NINE, NINE, refine=-1), "refine", -1),
    (lambda: align(NINE, NINE, p="zip"), "p", "zip"),
    (lambda: align(NINE, NINE, q=np.ones(7), n_words=8), "q", "(8,) or (9,), got (7,)"),
    (lambda: gwfast.PointCloud(np.zeros((4, 2)), "dot").scaled_by("mean"), "mean", 0),
    (lambda: gwfast.procrustes(NINE, NINE[:4]), "y", 4),
    (lambda: gwfast.nearest_neighbors(NINE, NINE[:, :2]), "targets", 2),
    (lambda: aligned().refine(-1), "rounds", -1),
    (lambda: aligned().translate([3], direction="back"), "direction", "back"),
    (lambda: aligned().translate([3], method="mean"), "method", "mean"),
    (lambda: aligned().translate([7], method="barycentric"), "items", 7),
    (lambda: aligned().translate([0.5]), "items", "float64", TypeError),
    (lambda: aligned().translate([]), "items", "empty"),
    (lambda: aligned().translate([[1.0, 2.0]]), "items", 2),
    (lambda: aligned().translate("A", direction="backward"), "items", "target"),
    (lambda: named().translate(["a", "z", "y"]), "items", "'z' and 1 more"),
    (lambda: named().translate(["a", "z"], unknown="skip"), "unknown", "skip"),
    (lambda: aligned().evaluate({"a": {"A"}}), "words", "with_words"),
    (lambda: aligned().with_words("abcdefghi", "ABC"), "target", 3),
    (lambda: aligned().with_words(range(9), "ABCDEFGH"), "source", "int", TypeError),
    (lambda: named().evaluate({}, methods="csls"), "methods", "csls", TypeError),
    (lambda folder: loaded(folder).evaluate({}, methods=["coupling"]), "methods", "coupling"),
    (lambda folder: loaded(folder).translate(method="coupling"), "gw", "save"),
    (lambda folder: loaded(folder).plan, "gw", "no plan"),
    (lambda folder: loaded(folder).gw.save(folder / "b"), "gw", "no plan"),
    (lambda folder: loaded(folder, rows=False).translate(), "rows", False),
    (lambda folder: gwfast.Alignment.load(folder), "path", "without mapping.npz"),
    (lambda: gwfast.GromovWassersteinAligner().set_params(words=3), "parameter", "words"),
    (lambda: fit((9, 3), (9, 3), retrieval="best"), "retrieval", "best"),
    (lambda: fit((9, 3), (9, 1)), "feature", "1 feature(s)"),
]
