"""Numbers of text: in every case the float32 next to the value of `float`."""

import re

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from gwfast.words.files import _text

NUMBER = rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"


def twin(text, start, values, words):
    """Do the work of `parse_rows` by regular expressions."""
    line = re.compile(rb"([^ \n]+)((?: %b){%d})[ \r]*\n" % (NUMBER, values.shape[1]))
    for row in range(len(values)):
        found = line.match(text, start)
        if found is None:
            return row, start
        with np.errstate(over="ignore"):
            numbers = np.array([float(x) for x in found[2].split()]).astype(np.float32)
        if not np.isfinite(numbers).all():
            return row, start
        values[row], words[row], start = numbers, found.span(1), found.end()
    return len(values), start


def parse(text, d, start=0, n_rows=50, parse_rows=_text.parse_rows):
    values = np.full((n_rows, d), 7, np.float32)
    words = np.zeros((n_rows, 2), np.intp)
    n, stop = parse_rows(text, start, values, words)
    return n, stop, values[:n].view(np.int32).tolist(), words[:n].tolist()


def expect(text, d, **options):
    found = parse(text, d, **options)
    assert found == parse(text, d, parse_rows=twin, **options)
    return found


def one(text):
    """The bits of a number alone, None where it is not taken."""
    n, stop, values, _ = parse(b"a " + text.encode() + b"\n", 1)
    assert stop == (len(text) + 3 if n else 0)
    return np.array(values[0], np.int32) if n else None


def bits(text):
    """The same by Python and NumPy."""
    with np.errstate(over="ignore"):
        value = np.float64(float(text)).astype(np.float32)
    return value.view(np.int32) if np.isfinite(value) else None


floats = st.floats(allow_nan=False, allow_infinity=False)
float32s = st.floats(allow_nan=False, allow_infinity=False, width=32)
digits = st.text("0123456789", max_size=40)


@st.composite
def decimals(draw):
    text = draw(st.sampled_from(["", "-", "+"])) + draw(digits)
    if draw(st.booleans()):
        text += "." + draw(digits)
    assume(re.search("[0-9]", text))
    if draw(st.booleans()):
        text += draw(st.sampled_from("eE")) + str(draw(st.integers(-60, 60)))
    return text


@given(text=st.one_of(decimals(), floats.map(repr), float32s.map("{:.9g}".format)))
@settings(max_examples=300, deadline=None)
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
@example(text="1.17549435e-38")
@example(text="16777217")
@example(text="9007199791611905")  # rounded to float64 first, it is a tie
@example(text="0.000000000000000000000000000000000000000000000000000001")
@example(text="100000000000000000000000000000000000000000000000000000e-30")
def test_any_decimal(text):
    assert one(text) == bits(text)


@given(value=float32s, above=st.booleans(), more=st.text("0123456789", max_size=30))
@settings(max_examples=200, deadline=None)
def test_next_to_the_middle_of_two(value, above, more):
    """An approximation does not tell which of two float32 is nearer."""
    with np.errstate(over="ignore"):
        neighbor = np.nextafter(np.float32(value), np.float32(np.inf))
    assume(np.isfinite(neighbor))
    middle = (np.float64(value) + np.float64(neighbor)) / 2
    beside = f"{np.nextafter(middle, np.inf if above else -np.inf):.25e}"
    exactly = f"{middle:.60e}"
    for text in (beside, exactly, exactly.replace("e", f"{more}e")):
        assert one(text) == bits(text)


@pytest.mark.parametrize("text", [
    "", "-", ".", "+.", "e5", ".e5", "1e", "1e+", "--1", "+-1", "1_0", "0x10", "1,5",
    "1d5", "nan", "inf", "-Infinity", " 1", "1\t", "\t1", "1.5.2", "1e5.5", "1e5e5",
    "\0", "1\0", "\u0661", "1e39", "-3.5e38",
])  # fmt: skip
def test_what_is_no_finite_number(text):
    assert one(text) is None


pieces = st.sampled_from(
    [b" ", b" ", b"\n", b"\r\n", b"a", b"1", b"2.5", b"-3e-5", b"+", b".", b"\t", b"\0"]
)


@given(pieces=st.lists(pieces, max_size=60), d=st.integers(1, 3), data=st.data())
@settings(max_examples=200, deadline=None)
def test_any_lines(pieces, d, data):
    text = b"".join(pieces)
    start = data.draw(st.integers(0, len(text)))
    expect(text, d, start=start, n_rows=data.draw(st.integers(0, 4)))


def test_lines():
    text = b"a 1 2\nb\xff\r -0 .5e1  \r\r\n\xe4\t 3. +4\nno line feed 1 2"
    n, stop, values, words = expect(text, 2)
    assert (n, text[stop:]) == (3, b"no line feed 1 2")
    expected = np.array([[1, 2], [-0.0, 5], [3, 4]], np.float32)
    assert values == expected.view(np.int32).tolist()
    assert [text[a:b] for a, b in words] == [b"a", b"b\xff\r", b"\xe4\t"]
    assert expect(text, 2, n_rows=2)[:2] == (2, text.index(b"\xe4"))
    assert expect(text, 2, start=6, n_rows=2)[0] == 2


@pytest.mark.parametrize("text", [
    b"", b" ", b"a", b"a ", b" 1 2", b"a 1", b"a 1 2 3", b"a 1  2", b"a  1 2",
    b"a b 1 2", b"a\t1\t2", b"a 1 2 \t", b"a 1 x", b"a 1 ", b"a 1 2\r \rx", b"a 1\r2",
])  # fmt: skip
def test_lines_that_are_not_ordinary(text):
    for end in (b"\n", b""):  # of a file, or of a part of it
        assert expect(text + end, 2)[:2] == (0, 0)
        assert expect(b"a 1 2\n" + text + end, 2)[:2] == (1, 6)
    assert expect(b"a 1 2\n" + text + b"\na 1 2\n", 2)[:2] == (1, 6)


def test_bad_arguments():
    values, words = np.empty((2, 3), np.float32), np.empty((2, 2), np.intp)
    with pytest.raises(ValueError, match="words must have 2 columns and as many rows"):
        _text.parse_rows(b"a 1\n", 0, values, words[:1])
    with pytest.raises(ValueError, match="words must have 2 columns and as many rows"):
        _text.parse_rows(b"a 1\n", 0, values, words[:, :1].copy())
    for start in (-1, 5):
        with pytest.raises(ValueError, match="start must be within the text"):
            _text.parse_rows(b"a 1\n", start, values, words)
