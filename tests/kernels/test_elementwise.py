"""exp and log: the errors stated in csrc/elementary_f32.inc and elementary_f64.inc,
measured against a type of more bits; exact values, limits, NaN, order."""

import math

import numpy as np
import pytest

from gwfast.kernels import _exponentials


def exp(x, out):
    """A Gibbs kernel without potentials."""
    m = len(x)
    _exponentials.gibbs_kernel(-x[None], np.zeros(1), np.zeros(m), 1.0, out[None], 2)


def log(x, out):
    """The proximal part of a cost, for entries that plans may have."""
    out[:] = 0
    _exponentials.proximal_cost(out[None], x[None], -1.0, 2)


TYPES = [np.float32, np.float64]
# Errors in units in the last place of the exact value. Every float32 was tried once on
# each instruction set: 1.0193 (0.9889 without fused multiply-add) and 0.8661 were the
# worst. Of 10^7 arguments of float64: 1.043 (1.009) and 0.836.
MOST_ULP = {
    (exp, np.float32): 1.02,
    (log, np.float32): 0.87,
    (exp, np.float64): 1.05,
    (log, np.float64): 0.85,
}
# Where exp begins and ends.
LEAST = {np.float32: np.float32(-87.3365402), np.float64: -708.3964185322641}
MOST = {np.float32: np.float32(88.7228317), np.float64: 709.782712893384}


def apply(kernel, x, dtype=np.float32):
    x = np.ascontiguousarray(x, dtype=dtype)
    out = np.full_like(x, 7)
    kernel(x, out)
    return out


def from_bits(bits):
    return np.asarray(bits, dtype=np.uint32).view(np.float32)


def around(centers, width, dtype=np.float32):
    """Runs of adjacent floats around some, in order, one run a row."""
    of_bits = np.int32 if dtype is np.float32 else np.int64
    bits = np.asarray(centers, dtype=dtype).view(of_bits)
    runs = (bits[:, None] + np.arange(-width, width + 1, dtype=of_bits)).view(dtype)
    return np.sort(runs, axis=1)


def exp_arguments():
    yield around([37.77864, -27.377993, 59.266754, -27.378984], 20_000)
    # Where the integer part of x / ln 2 changes, and in the middle between.
    seams = np.arange(-251, 256) * np.log(2) / 2
    yield around(seams[seams != 0], 300)
    ends = LEAST[np.float32], MOST[np.float32]
    yield np.linspace(*ends, 1_000_000, dtype=np.float32)[None]
    for end in ends:
        last = int(end.view(np.uint32))
        yield np.sort(from_bits(np.arange(last - 5000, last + 1))[None])
        yield np.sort(from_bits(np.arange(last, last & 1 << 31, -4001))[None])


def log_arguments():
    yield around([1.4009095], 20_000)
    yield around([1.0], 500_000)
    # The exponents that log takes out change here.
    seams = np.arange(0xB504F3 + (30 << 23), 0x7F800000, 1 << 23, dtype=np.uint32)
    yield around(from_bits(seams), 300)
    yield from_bits(np.arange(0xE000000, 0x7F800000, 1009))[None]


def wide_exp_arguments():
    rng, ends = np.random.default_rng(42), (LEAST[np.float64], MOST[np.float64])
    worst = [151.46383890867034, -324.7303485293683, -333.04355774300166]
    yield around(worst, 20_000, np.float64)
    seams = np.arange(-2040, 2046) * np.log(2) / 2
    yield around(seams[(seams != 0) & (seams > ends[0] + 1)], 50, np.float64)
    yield np.sort(rng.uniform(*ends, (1, 300_000)))


def wide_log_arguments():
    rng = np.random.default_rng(42)
    yield around([1.402968670377405, 1.5614559474462124, 1.0], 20_000, np.float64)
    yield around(np.ldexp(np.sqrt(0.5), np.arange(-960, 1000)), 50, np.float64)
    yield np.sort(rng.uniform(0.5, 2.1, (1, 300_000)))
    yield np.sort(np.exp(rng.uniform(-667, 709, (1, 300_000))))


needs_long_doubles = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 60, reason="long doubles have no more bits here"
)


@pytest.mark.parametrize(
    "kernel, exact, arguments, wider",
    [
        (exp, np.exp, exp_arguments, np.float64),
        (log, np.log, log_arguments, np.float64),
        pytest.param(*(exp, np.exp, wide_exp_arguments, np.longdouble), marks=needs_long_doubles),
        pytest.param(*(log, np.log, wide_log_arguments, np.longdouble), marks=needs_long_doubles),
    ],
    ids=["exp", "log", "wide exp", "wide log"],
)
def test_they_are_as_exact_as_stated_and_never_decrease(kernel, exact, arguments, wider, isa):
    for x in arguments():
        dtype = x.dtype.type
        came = apply(kernel, x.ravel(), dtype).reshape(x.shape)
        expected = exact(x.astype(wider))
        # Units of the exact value: what rounds up to a power of two has not twice that.
        exponent = np.frexp(expected)[1]
        least = np.finfo(dtype).minexp + 1
        digits = np.finfo(dtype).nmant + 1
        unit = np.ldexp(wider(1.0), np.maximum(exponent, least) - digits)
        error = np.abs(came - expected) / unit
        at = np.unravel_index(error.argmax(), error.shape)
        assert error[at] <= MOST_ULP[kernel, dtype], f"at {x[at]!r}"
        assert (np.diff(came, axis=1) >= 0).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_exp_leaves_its_range_as_stated(dtype, isa):
    def exp_of(*x):
        return apply(exp, x, dtype)

    smallest = np.finfo(dtype).smallest_subnormal
    assert (exp_of(0.0, -0.0, smallest, -smallest, 1e-20) == 1).all()
    least, most = LEAST[dtype], MOST[dtype]
    low, high = exp_of(least, most)
    assert low >= np.finfo(dtype).tiny and np.isfinite(high)
    far = np.finfo(dtype).max / 10
    below, above = np.nextafter(least, -far), np.nextafter(most, far)
    assert (exp_of(below, least - 1, 1.2 * least, -1e4, -far, -np.inf) == 0).all()
    assert (exp_of(above, most + 1, 1e4, far, np.inf) == np.inf).all()


def test_log_of_special_values(isa):
    limits = np.finfo(float)
    small = limits.smallest_subnormal, limits.tiny / 8, np.nextafter(limits.tiny, 0)
    x = np.array([1.0, 0.0, -0.0, *small, np.inf, limits.tiny, limits.max, -1.0, -np.inf, np.nan])
    exact = [
        0.0,
        *[-np.inf] * 5,
        np.inf,
        math.log(limits.tiny),
        math.log(limits.max),
        *[np.nan] * 3,
    ]
    came = np.empty(len(x))
    _exponentials.absorb(np.zeros(len(x)), x, 1.0, came)
    np.testing.assert_array_equal(came, exact)


@pytest.mark.parametrize("dtype", TYPES)
def test_exp_of_nan_is_nan_whatever_its_bits(dtype, isa):
    wide = dtype is np.float64
    digits, of_bits = (52, np.uint64) if wide else (23, np.uint32)
    infinity = (0x7FF if wide else 0xFF) << digits
    signs = np.array([infinity, infinity | 1 << (63 if wide else 31)], dtype=of_bits)
    quiet, every = 1 << (digits - 1), (1 << digits) - 1
    payloads = np.r_[1:600, quiet : quiet + 600, every].astype(of_bits)
    nans = (signs[:, None] + payloads).view(dtype).ravel()
    assert np.isnan(apply(exp, nans, dtype)).all()
