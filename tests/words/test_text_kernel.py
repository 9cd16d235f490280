"""The kernel that parses text, imported from inside: each number and each line is a case here."""

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from gwfast.words.files._text import parse_rows


def parse(text, d=2, start=0, n_rows=50):
    values, words = np.full((n_rows, d), 7, np.float32), np.zeros((n_rows, 2), np.intp)
    n, stop = parse_rows(text, start, values, words)
    return n, stop, values[:n], [text[begin:end] for begin, end in words[:n]]


def kernel_bits(text):
    """Return the bits of a number alone, None if it is not taken."""
    n, stop, values, _ = parse(b"a " + text.encode() + b"\n", d=1)
    assert stop == (len(text) + 3 if n else 0)
    return values[0].view(np.int32) if n else None


def python_bits(text):
    with np.errstate(over="ignore"):
        value = np.float64(float(text)).astype(np.float32)
    return value.view(np.int32) if np.isfinite(value) else None


digits = st.text("0123456789", max_size=40)
float32s = st.floats(allow_nan=False, allow_infinity=False, width=32)
floats = st.floats(allow_nan=False, allow_infinity=False).map(repr)
integers = st.integers(-(10**30), 10**30)
decimals = st.builds("{}.{}e{}".format, integers, digits, st.integers(-60, 60))


@given(text=decimals | floats)
@settings(max_examples=200, deadline=None)
@example(text="1e400")
@example(text="-1e-400")
@example(text="0e99999999999")
@example(text="1e-99999999999")
@example(text="3.4028235e38")  # the largest
@example(text="340282356779733661637539395458142568447")  # rounds to it
@example(text="3.4028235677973366e38")  # does not
@example(text="1e-45")  # the smallest
@example(text="7.006492321624085e-46")  # half of it, which is even: 0
@example(text="7.0064923216240862e-46")
@example(text="9007199791611905")  # rounded to float64 first, it is a tie
@example(text="0.000000000000000000000000000000000000000000000000000001")
@example(text="100000000000000000000000000000000000000000000000000000e-30")
def test_any_decimal(text):
    assert kernel_bits(text) == python_bits(text)


@given(value=float32s, above=st.booleans(), more=digits)
@settings(max_examples=200, deadline=None)
def test_next_to_the_middle_of_two(value, above, more):
    """An approximation does not tell which of two float32 is nearer."""
    with np.errstate(over="ignore"):
        neighbor = np.nextafter(np.float32(value), np.float32(np.inf))
    assume(np.isfinite(neighbor))
    middle = (np.float64(value) + np.float64(neighbor)) / 2
    exactly = f"{middle:.60e}"
    beside = f"{np.nextafter(middle, np.inf if above else -np.inf):.25e}"
    for text in (beside, exactly, exactly.replace("e", f"{more}e")):
        assert kernel_bits(text) == python_bits(text)


PARTS = "- . +. e5 .e5 1e 1e+ --1 +-1 1_0 0x10 1,5 1d5 nan inf -Infinity 1.5.2 1e5.5 1e5e5".split()


@pytest.mark.parametrize(
    "text", ["", *PARTS, " 1", "1\t", "\t1", "\0", "1\0", "\u0661", "1e39", "-3.5e38"]
)
def test_texts_that_are_no_finite_number(text):
    assert kernel_bits(text) is None


def test_lines():
    text = b"a 1 2\nb\xff\r -0 .5e1  \r\r\n\xe4\t 3. +4\nno line feed 1 2"
    n, stop, values, words = parse(text)
    assert (n, text[stop:]) == (3, b"no line feed 1 2")
    expected = np.array([[1, 2], [-0.0, 5], [3, 4]], np.float32)
    np.testing.assert_array_equal(values.view(np.int32), expected.view(np.int32))
    assert words == [b"a", b"b\xff\r", b"\xe4\t"]
    assert parse(text, n_rows=2)[:2] == (2, text.index(b"\xe4"))
    assert parse(text, start=6)[3] == words[1:]
    assert parse(text, n_rows=0)[:2] == parse(text, d=0)[:2] == (0, 0)
    assert parse(text, start=len(text))[:2] == (0, len(text))


SPACED = b"", b" ", b"a", b"a ", b" 1 2", b"a 1", b"a 1 2 3", b"a 1  2", b"a  1 2", b"a b 1 2"
OTHERS = b"a\n1 2", b"a\t1\t2", b"a 1 2 \t", b"a 1 x", b"a 1 ", b"a 1 2\r \rx", b"a 1\r2"


@pytest.mark.parametrize("text", SPACED + OTHERS)
def test_lines_that_are_not_ordinary(text):
    for end in (b"\n", b"", b"\na 1 2\n"):
        if text + end:
            assert parse(text + end)[:2] == (0, 0)
        assert parse(b"a 1 2\n" + text + end)[:2] == (1, 6)


def test_bad_arguments():
    values, words = np.empty((2, 3), np.float32), np.empty((2, 2), np.intp)
    for start, wrong in ((0, words[:1]), (0, words[:, :1].copy()), (-1, words), (5, words)):
        with pytest.raises(ValueError):
            parse_rows(b"a 1\n", start, values, wrong)
