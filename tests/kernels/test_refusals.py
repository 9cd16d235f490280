"""Kernels refuse what they cannot take, and write nothing then."""

from copy import deepcopy

import numpy as np
import pytest
from helpers.kernel_cases import (
    CASES,
    COMPILED,
    WIDTH,
    Made,
    arguments,
    assert_same,
    buffer,
    call,
    matrix,
    run,
    widened,
)

from gwfast.kernels import _kernels, _products, _rows

pytestmark = pytest.mark.usefixtures("one_blas_thread")
RNG = np.random.default_rng(0)


def leaves(given, *path):
    """Arrays among arguments, and among those of what is made, each by its path."""
    for name, x in given.items():
        if isinstance(x, np.ndarray):
            yield (*path, name), x
        elif isinstance(x, Made):
            yield from leaves(x.given, *path, name)


def replace(given, path, change):
    for name in path[:-1]:
        given = given[name].given
    given[path[-1]] = change(given[path[-1]])


@pytest.mark.parametrize("case", CASES)
def test_kernel_takes_read_only_inputs(case):
    given = arguments(case, 9, 7, seed=4)
    expected = run(COMPILED, case, given)
    for path, x in leaves(given):
        if path[0] not in CASES[case].writes:
            x.flags.writeable = False
    assert_same(call(COMPILED, case, given), expected)


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


OTHER_TYPE = {"f4": "f8", "f8": "f4", "i8": "f8", "i4": "f8"}
SPOILS = {
    "dtype": lambda x: x.astype(OTHER_TYPE[x.dtype.str[1:]]),
    "order": lambda x: np.asfortranarray(x) if x.ndim == 2 else np.repeat(x, 2)[::2],
    "rows": lambda x: x[:-1].copy(),
    "columns": lambda x: np.ascontiguousarray(x[:, :-1]),
    "ndim": lambda x: x[None],
    "read only": read_only,
}
# Types and sides that no other argument tells: a kernel's only matrix, its type or free side.
FREE = {
    ("dtype", "absorb", "u"),
    ("dtype", "entropy", "plan"),
    ("dtype", "logsumexp_rows", "cost"),
    ("dtype", "logsumexp_cols", "cost"),
    *(
        ("dtype", f"moments{kind}", *path)
        for kind in ("", "-alone", "-halves")
        for path in (("matrix",), ("out",))
    ),
    ("dtype", "rescale_columns", "v"),
    ("dtype", "rescale_columns-relaxed", "v"),
    ("dtype", "survey-square", "a"),
    ("rows", "entropy", "plan"),
    ("rows", "extent", "x"),
    ("rows", "mass_entropy", "masses"),
    ("columns", "entropy", "plan"),
    ("columns", "topk_rows", "x"),
}


def spoiled(case):
    """Ways to spoil one argument of a kernel, each with the path of it."""
    for path, x in leaves(arguments(case, 6, 7, seed=0)):
        for spoil in SPOILS:
            if (
                (spoil, case, *path) not in FREE
                and (spoil != "columns" or x.ndim == 2)
                and (spoil != "read only" or path[0] in CASES[case].writes)
            ):
                yield spoil, path


def refuses(case, spoil, path):
    """Whether a kernel refuses, and has written nothing then."""
    given = arguments(case, 6, 7, seed=5)
    replace(given, path, SPOILS[spoil])
    outputs = [given[x] for x in CASES[case].writes if isinstance(given[x], np.ndarray)]
    before = deepcopy(outputs)
    try:
        call(COMPILED, case, given)
    except (ValueError, TypeError):
        return all(map(np.array_equal, outputs, before))
    return False


@pytest.mark.parametrize("case", CASES)
def test_kernel_refuses_what_it_cannot_take_and_writes_nothing(case):
    ways = [*spoiled(case)]
    assert ways
    assert not [way for way in ways if not refuses(case, *way)]


@pytest.mark.parametrize("case", [x for x in CASES if "work" in arguments(x, 6, 7, 0)])
def test_kernel_refuses_scratch_of_another_size_or_type(case):
    # Some need the sums alone: those of columns, in float64.
    sums_alone = case.startswith("rescale_columns")
    sizes = [(7, 6), (6, 8)] if sums_alone else [(7, 6), (6, 8), (5, 7)]
    given = arguments(case, 6, 7, seed=6)
    for work in (None, *(_rows.ColumnSums(*size) for size in sizes)):
        with pytest.raises((ValueError, TypeError), match=r"work|^[vq] must"):
            call(COMPILED, case, given | {"work": work})
    if not CASES[case].wide or sums_alone:
        return
    types = (np.float32, "float32"), (np.float64, "float64")
    for (_, own), (dtype, other) in (types, types[::-1]):
        if own == "float64":
            given = widened(given)
        given["work"] = _rows.ColumnSums(6, 7, dtype)
        with pytest.raises(ValueError, match=f"work must be for {own}, got {other}"):
            call(COMPILED, case, given)


@pytest.mark.parametrize(
    "case, changes, error, message",
    [
        ("matmul", {"b": matrix(RNG, WIDTH, 7)}, TypeError, "b"),
        ("copy_rows-product", {"rows": matrix(RNG, 6, 7)}, TypeError, "rows"),
        (
            *("gibbs_kernel", {"out": buffer(6, 8)}, ValueError),
            r"out must .* \(6, 7\), got \(6, 8\)",
        ),
    ],
)
def test_kernel_refusal_names_the_argument(case, changes, error, message):
    given = arguments(case, 6, 7, seed=7) | changes
    with pytest.raises(error, match=message):
        call(COMPILED, case, given)


@pytest.mark.parametrize("wide", [False, True])
def test_products_refuse_factors_of_two_types(wide):
    types = (np.float32, np.float64)[:: -1 if wide else 1]
    a, b = np.ones((6, 5), dtype=types[0]), np.ones((5, 7), dtype=types[1])
    with pytest.raises(ValueError, match=r"panels must be of float\d\d, got float\d\d"):
        _products.matmul(a, _products.Panels(b), np.empty((6, 7), dtype=types[1]))
    with pytest.raises(ValueError, match="float"):
        _products.matmul(a, _products.Panels(b), np.empty((6, 7), dtype=types[0]))
    if not wide:  # rows that are made are never of float64
        with pytest.raises(ValueError, match="panels must be of float32, got float64"):
            _products.Product(a, _products.Panels(b))


@pytest.mark.parametrize("dtype", [np.float16, np.int64, np.longdouble, ">f8", ">f4"])
def test_kernel_refuses_other_types_of_numbers(dtype):
    x = np.ones((3, 4), dtype=dtype)
    with pytest.raises(ValueError):
        _kernels.entropy(x)
    with pytest.raises(ValueError):
        _kernels.dot(x, x)
    with pytest.raises(ValueError):
        _products.Panels(x)
    with pytest.raises(ValueError, match="dtype must be float32 or float64"):
        _rows.ColumnSums(3, 4, dtype)
