"""Kernels flush subnormal numbers, in each of their threads, and leave the setting of the
caller's threads alone."""

from copy import deepcopy

import numpy as np
import pytest
from helpers.kernel_cases import CASES, COMPILED, arguments, run, widened
from helpers.marks import ISAS, pairwise

from gwfast.kernels import _rows
from gwfast.kernels.reference import flushed

needs_bits = pytest.mark.skipif(not _rows.FLUSH_BITS, reason="nothing to set here")
pytestmark = pytest.mark.usefixtures("one_blas_thread")
# Sizes at which the ends of rows and of blocks of rows are met.
SHAPES = [(1, 1), (5, 3), (33, 31), (129, 65), (1030, 17)]
DTYPES = [np.float32, np.float64]


def with_subnormals(given):
    """Make every third row of each array of numbers subnormal."""
    for name, x in given.items():
        x = getattr(x, "given", x)
        if isinstance(x, dict):
            with_subnormals(x)
        elif isinstance(x, np.ndarray) and x.dtype.kind == "f" and x.dtype.itemsize > 2:
            x = np.array(x)
            x[::3] *= x.dtype.type(np.finfo(x.dtype).tiny) / 8
            given[name] = x
    return given


def without_subnormals(given):
    given = deepcopy(given)
    for name, x in given.items():
        x = getattr(x, "given", x)
        if isinstance(x, dict):
            x.update(without_subnormals(x))
        elif isinstance(x, np.ndarray) and x.dtype.kind == "f" and x.dtype.itemsize > 2:
            given[name] = flushed(x)
    return given


def count(result):
    """Return the number of subnormal entries of arrays, in tuples and lists too."""
    if isinstance(result, tuple | list):
        return sum(map(count, result))
    x = np.asarray(result)
    return int((x != flushed(x)).sum()) if x.dtype.kind == "f" else 0


# One moves entries as they are, the other tells whether masses have a positive sum.
COMPUTED = [case for case in CASES if case not in ("topk_rows", "extent")]


@pairwise(case=COMPUTED, shape=SHAPES, dtype=DTYPES, isa=ISAS)
def test_subnormal_input_counts_as_zero_and_none_comes_out(case, shape, dtype, isa, seed):
    given = arguments(case, *shape, seed)
    if dtype is np.float64 and CASES[case].wide:
        given = widened(given)
    given = with_subnormals(given)
    with np.errstate(all="ignore"):
        came = run(COMPILED, case, given)
        expected = run(COMPILED, case, without_subnormals(given))
    for one, other in zip(came, expected, strict=True):
        np.testing.assert_array_equal(flushed(np.asarray(one, np.float64)), other)
    assert count(came) == 0


def settings():
    """Return the control registers of three threads without the flags of operations."""
    return [control & ~_rows.FLAGS for control in _rows.float_controls(3)]


@needs_bits
@pairwise(case=CASES, isa=ISAS, flushes=[False, True])
def test_kernels_restore_the_control_register_of_each_thread(case, isa, flushes):
    given = with_subnormals(arguments(case, 129, 65, 1))
    before = settings()
    if flushes:
        _rows.set_float_control(before[0] | _rows.FLUSH_BITS)
    try:
        expected = settings()
        with np.errstate(all="ignore"):
            run(COMPILED, case, given)
        assert settings() == expected
    finally:
        _rows.set_float_control(before[0])


@needs_bits
def test_a_refused_call_restores_the_control_register():
    before = settings()
    with pytest.raises(ValueError, match="cost must have shape"):
        COMPILED.dot(np.ones((3, 3)), np.ones((3, 4)))
    assert settings() == before
