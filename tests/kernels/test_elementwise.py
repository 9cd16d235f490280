"""exp and log: the errors stated in csrc/elementary_f32.inc and elementary_f64.inc,
measured against a type of more bits; exact values, limits, NaN, order."""

import math

import numpy as np
import pytest

from gwfast.kernels import _exponentials

# In units in the last place of the exact value. Every float32 was tried once on each
# instruction set: 1.0193 (0.9889 without fused multiply-add) and 0.8661 were the worst.
EXP_ULP, LOG_ULP = 1.02, 0.87
EXP_WORST, LOG_WORST = [37.77864, -27.377993, 59.266754, -27.378984], [1.4009095]
EXP_LEAST, EXP_MOST = np.float32(-87.3365402), np.float32(88.7228317)


def apply(kernel, x):
    x = np.ascontiguousarray(x, dtype=np.float32)
    out = np.full_like(x, 7)
    kernel(x, out, 2)
    return out


def from_bits(bits):
    return np.asarray(bits, dtype=np.uint32).view(np.float32)


def around(centers, width):
    """Runs of adjacent floats around some, one run a row."""
    bits = np.asarray(centers, dtype=np.float32).view(np.uint32).astype(np.int64)
    return from_bits(bits[:, None] + np.arange(-width, width + 1))


def exp_arguments():
    # Where the integer part of x / ln 2 changes, and in the middle between.
    seams = np.arange(-251, 256) * np.log(2) / 2
    yield around(EXP_WORST, 20_000)
    yield around(seams[seams != 0], 300)
    yield np.linspace(EXP_LEAST, EXP_MOST, 1_000_000, dtype=np.float32)[None]
    for end in (EXP_LEAST, EXP_MOST):
        last = int(end.view(np.uint32))
        yield from_bits(np.arange(last - 5000, last + 1))[None]
        yield from_bits(np.arange(last, last & 1 << 31, -4001))[None]


def log_arguments():
    # Where the exponent changes that log takes out.
    seams = np.arange(0x3504F3, 0x7F800000, 1 << 23, dtype=np.uint32)
    yield around(LOG_WORST, 20_000)
    yield around([1.0], 500_000)
    yield around(from_bits(seams), 300)
    yield from_bits(np.arange(1, 0x7F800000, 1009))[None]
    yield from_bits(np.arange(1, 200_000))[None]


def error_in_ulp(came, exact):
    exponent = np.frexp(exact)[1]
    return np.abs(came - exact) / np.ldexp(1.0, np.maximum(exponent, -125) - 24)


def worst_error(kernel, exact, arguments):
    worst, where = 0.0, None
    for x in arguments:
        error = error_in_ulp(apply(kernel, x.ravel()), exact(x.ravel().astype(float)))
        at = error.argmax()
        if not error[at] <= worst:
            worst, where = error[at], x.ravel()[at]
    return worst, where


def decreases(kernel, arguments):
    """Largest number of ulp by which the value falls between neighbors, and how often
    it does."""
    worst, count = 0.0, 0
    for x in arguments:
        order = np.sort(x, axis=1)
        value = apply(kernel, order.ravel()).reshape(order.shape)
        fall = -np.diff(value) / np.spacing(np.abs(value[:, 1:]))
        worst, count = max(worst, fall.max()), count + int((fall > 0).sum())
    return worst, count


def test_exp_is_as_exact_as_stated(isa):
    worst, where = worst_error(_exponentials.exp, np.exp, exp_arguments())
    assert worst <= EXP_ULP, f"at {where!r}"


def test_log_is_as_exact_as_stated(isa):
    worst, where = worst_error(_exponentials.log, np.log, log_arguments())
    assert worst <= LOG_ULP, f"at {where!r}"


def test_exp_never_decreases(isa):
    worst, count = decreases(_exponentials.exp, exp_arguments())
    assert worst <= 0, f"{count} times"


def test_log_never_decreases(isa):
    worst, count = decreases(_exponentials.log, log_arguments())
    assert worst <= 0, f"{count} times"


def test_exp_of_zero_is_exactly_one(isa):
    assert (apply(_exponentials.exp, [0.0, -0.0, 1e-45, -1e-45, 1e-10]) == 1).all()


def test_exp_leaves_the_range_of_float32_as_stated(isa):
    below = np.nextafter(EXP_LEAST, np.float32(-100))
    above = np.nextafter(EXP_MOST, np.float32(100))
    low, high = apply(_exponentials.exp, [EXP_LEAST, EXP_MOST])
    assert low >= np.finfo(np.float32).tiny and np.isfinite(high)
    assert (
        apply(_exponentials.exp, [below, -88, -104, -1e4, -1e38, -np.inf]) == 0
    ).all()
    assert (apply(_exponentials.exp, [above, 89, 1e4, 1e38, np.inf]) == np.inf).all()


def test_log_of_special_values(isa):
    came = apply(_exponentials.log, [1.0, 0.0, -0.0, np.inf, 1e-45])
    exact = [0.0, -np.inf, -np.inf, np.inf, np.float32(-103.27893)]
    np.testing.assert_array_equal(came, np.float32(exact))
    assert np.isnan(apply(_exponentials.log, [-1e-45, -1.0, -3e38, -np.inf])).all()


@pytest.mark.parametrize(
    "kernel", [_exponentials.exp, _exponentials.log], ids=["exp", "log"]
)
def test_nan_stays_nan_whatever_its_bits(kernel, isa):
    signs = np.array([0x7F800000, 0xFF800000])[:, None]
    payloads = np.r_[1:600, 0x400000:0x400600, 0x7FFFFF]
    assert np.isnan(apply(kernel, from_bits(signs + payloads).ravel())).all()


# --- Float64 --------------------------------------------------------------------------

# The worst of 10^7 arguments: 1.043 (1.009 without fused multiply-add) and 0.836.
WIDE_EXP_ULP, WIDE_LOG_ULP = 1.05, 0.85
WIDE_EXP_WORST = [151.46383890867034, -324.7303485293683, -333.04355774300166]
WIDE_LOG_WORST = [1.402968670377405, 1.5614559474462124]
WIDE_LEAST, WIDE_MOST = -708.3964185322641, 709.782712893384


def apply_wide(kernel, x):
    x = np.ascontiguousarray(x, dtype=np.float64)
    out = np.full_like(x, 7)
    kernel(x, out, 2)
    return out


def around_wide(centers, width):
    """Runs of adjacent doubles around some, in order, one run a row."""
    bits = np.asarray(centers, dtype=np.float64).view(np.int64)
    runs = (bits[:, None] + np.arange(-width, width + 1)).view(np.float64)
    return np.sort(runs, axis=1)


def wide_exp_arguments(rng):
    seams = np.arange(-2040, 2046) * np.log(2) / 2
    yield around_wide(WIDE_EXP_WORST, 20_000)
    yield around_wide(seams[(seams != 0) & (seams > WIDE_LEAST + 1)], 50)
    yield np.sort(rng.uniform(WIDE_LEAST, WIDE_MOST, (1, 300_000)))


def wide_log_arguments(rng):
    yield around_wide(WIDE_LOG_WORST, 20_000)
    yield around_wide(np.ldexp(np.sqrt(0.5), np.arange(-1000, 1000)), 50)
    yield around_wide([1.0], 20_000)
    yield np.sort(rng.uniform(0.5, 2.1, (1, 300_000)))
    yield np.sort(np.exp(rng.uniform(-708, 709, (1, 300_000))))


@pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 60, reason="long doubles have no more bits here"
)
@pytest.mark.parametrize(
    "kernel, exact, arguments, most",
    [
        (_exponentials.exp, np.exp, wide_exp_arguments, WIDE_EXP_ULP),
        (_exponentials.log, np.log, wide_log_arguments, WIDE_LOG_ULP),
    ],
    ids=["exp", "log"],
)
def test_float64_is_as_exact_as_stated_and_never_decreases(
    kernel, exact, arguments, most, isa, seed
):
    for x in arguments(np.random.default_rng(seed)):
        came = apply_wide(kernel, x.ravel()).reshape(x.shape)
        expected = exact(x.astype(np.longdouble))
        unit = np.spacing(np.abs(expected.astype(np.float64)))
        assert (np.abs(came - expected) <= most * unit).all()
        assert (np.diff(came, axis=1) >= 0).all()


def test_exp_of_float64_leaves_its_range_as_stated(isa):
    came = apply_wide(_exponentials.exp, [0.0, -0.0, 5e-324, -1e-20])
    assert (came == 1).all()
    low, high = apply_wide(_exponentials.exp, [WIDE_LEAST, WIDE_MOST])
    assert low >= np.finfo(np.float64).tiny and np.isfinite(high)
    below, above = np.nextafter(WIDE_LEAST, -np.inf), np.nextafter(WIDE_MOST, np.inf)
    assert (apply_wide(_exponentials.exp, [below, -746, -1e300, -np.inf]) == 0).all()
    assert np.isposinf(apply_wide(_exponentials.exp, [above, 1e300, np.inf])).all()


def test_log_of_float64_of_special_values(isa):
    x = [1.0, 0.0, -0.0, np.inf, 5e-324, 1e-310, np.finfo(np.float64).max]
    exact = [0.0, -np.inf, -np.inf, np.inf, *map(math.log, x[4:])]
    np.testing.assert_array_equal(apply_wide(_exponentials.log, x), exact)
    assert np.isnan(apply_wide(_exponentials.log, [-5e-324, -1.0, -np.inf])).all()


@pytest.mark.parametrize(
    "kernel", [_exponentials.exp, _exponentials.log], ids=["exp", "log"]
)
def test_nan_of_float64_stays_nan_whatever_its_bits(kernel, isa):
    signs = np.array([0x7FF << 52, 0xFFF << 52], dtype=np.uint64)[:, None]
    payloads = np.r_[1:600, 1 << 51 : (1 << 51) + 600, (1 << 52) - 1].astype(np.uint64)
    assert np.isnan(
        apply_wide(kernel, (signs + payloads).view(np.float64).ravel())
    ).all()
