"""Refusals of kernels, called directly, of numbers of threads, and of marginal rules."""

import numpy as np
from helpers.refusals import refused

import gwfast
from gwfast.kernels import _kernels, _products, _rows
from gwfast.kernels._exact_pairs import ExactPairs, Space
from gwfast.kernels._frank_wolfe import FrankWolfe
from gwfast.kernels._transport import Transport

A, B, OUT = (np.ones(shape, np.float32) for shape in ((2, 5), (5, 7), (2, 7)))
SQUARE, SHORT, THIRDS = np.ones((3, 3)), np.ones((2, 3)), np.full(3, 1 / 3)
PANELS, WIDE, ROWS_OF_B = _products.Panels(B), _products.Panels(B.astype(float)), _rows.Shifted(B)
SPACE, TREE = Space(SQUARE, SQUARE, THIRDS, 1.0, 1.0, 1.0), Transport(THIRDS, THIRDS)


def calling(function, *arguments):
    return lambda: function(*arguments)


def largest(k):
    return _kernels.topk_rows(OUT, np.zeros((2, k), np.intp), np.zeros((2, k), np.float32))


def steps(name, matrix):
    return FrankWolfe(**dict(left=SQUARE, right=SQUARE, p=THIRDS, q=THIRDS) | {name: matrix})


def pairs(plans=None, from_plans=False, potentials=None, features=None, weights=THIRDS):
    other = Space(SQUARE, SQUARE, weights, 1.0, 1.0, 1.0, features)
    descents = ExactPairs()
    descents.begin([SPACE], [other], plans, from_plans, potentials)
    return ExactPairs.go_on([descents])


def solve(**given):
    return gwfast.gromov_wasserstein(SQUARE, SQUARE, epsilon=1.0, **given)


ROWS = [
    (lambda: _products.matmul_few(A, ROWS_OF_B, OUT), "b", "transposed"),
    (lambda: _products.matmul(A, PANELS, OUT, A[0]), "dots", None),
    (lambda: _products.matmul(A, B, OUT), "b", "ndarray", TypeError),
    (lambda: _products.matmul(A, WIDE, OUT.astype(float)), "panels", "float64"),
    (lambda: _products.matmul(A.astype(float), WIDE, OUT), "out", "float32"),
    (lambda: _products.Product(A, WIDE), "panels", "float64"),
    *[(calling(_products.Panels, x), "matrix", None) for x in (B[:, ::2], B[::-1], B.T, B[:0])],
    *[(calling(_products.Panels, ROWS_OF_B, *x), "rows", None) for x in ((), (True, A[0]))],
    *[(calling(_rows.Shifted, x), "matrix", None) for x in (B.astype(int), B[:, :2])],
    (lambda: _rows.ColumnSums(3, 4, np.float16), "dtype", "float16"),
    (lambda: _kernels.copy_rows(OUT, OUT), "rows", "ndarray", TypeError),
    *[(calling(_kernels.entropy, B.astype(x)), "plan", None) for x in ("f2", "i8", "g", ">f8")],
    *[(calling(largest, k), "k", k) for k in (0, 8)],
    *[(calling(steps, x, SHORT), x, None) for x in ("left", "right", "linear")],
    *[(calling(steps, "losses", x), "losses", None) for x in ((SHORT, None), (None, SHORT))],
    (lambda: steps("others", (SQUARE, SHORT)), "others", None),
    *[(calling(steps, "left", SQUARE.astype(x)), "dtype", None) for x in ("f4", "i8")],
    (lambda: steps("linear", SQUARE).start(SHORT), "broadcast", None),
    *[
        (calling(Transport, np.array(p), np.ones(1)), "masses", None)
        for p in ([1.0, 1e-5], [1.0, 0.0], [1.5, -0.5], [np.nan, 1.0], [np.inf])
    ],
    (lambda: TREE.entries(), "plan", None, RuntimeError),
    *[(calling(TREE.solve, np.zeros(x)), "cost", None) for x in ((3, 4), (2, 3), (0, 0))],
    (lambda: Space(SHORT, SQUARE, THIRDS, 1.0, 1.0, 1.0), "values", None),
    *[(calling(pairs, None, False, None, x), "features", None) for x in (SHORT, SQUARE)],
    *[
        (calling(pairs, *x), "plans", None)
        for x in ((SHORT,), (SQUARE[:, 1:].copy(),), (None, True))
    ],
    (lambda: pairs(potentials=np.empty(5)), "potentials", None),
    (lambda: pairs(weights=2 * THIRDS), "masses", 0),
    (lambda: ExactPairs().plan, "plan", None, RuntimeError),
    *refused(solve, n_threads=[4097, 2**70, 0]),
    (lambda: solve(p=THIRDS, q=2 * THIRDS, marginals=gwfast.Unbalanced(np.inf)), "rho", 2),
    *refused(solve, TypeError, n_threads=[True, 2.0, "2"]),
    *refused(gwfast.Unbalanced, rho={0.0: 0.0, "nan": np.nan, -1.0: (1.0, -1.0), 3: (1, 2, 3)}),
    *refused(gwfast.Unbalanced, TypeError, rho=["1", None, True]),
    *refused(gwfast.Unbalanced, TypeError, rho={"str": (1, "2")}),
    *refused(gwfast.Partial, mass=[0.0, 1.1]),
]
