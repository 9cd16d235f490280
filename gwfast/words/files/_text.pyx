"""Numbers of text, as float32: in all cases the same as Python's ``float``, rounded.

A number is approximated in float64, with an error of less than `MARGIN`. If both ends of the
interval round to the same float32, it is the result, and else CPython's own conversion decides,
which is slow and hardly ever needed.
"""
from libc.math cimport fabs
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport uint64_t
from libc.string cimport memchr

cdef extern from "Python.h":
    double PyOS_string_to_double(
        const char *text, char **end, void *overflow
    ) except? -1.0

# Four roundings of 2^-53 and a cut digit, eight times over.
cdef double MARGIN = 2.0**-48
# From here on float32 is infinite.
cdef double INFINITE = 2.0**128 - 2.0**103
# One more digit fits into 64 bits.
cdef uint64_t FULL = 10**18
# Powers of ten that are exact in float64.
cdef int EXACT = 22
cdef double[23] POWERS
for _power in range(23):
    POWERS[_power] = 10.0**_power


def parse_rows(
    const unsigned char[::1] text,  # IN
    ptrdiff_t start,                # IN where in it the first line begins
    float[:, ::1] values,           # OUT (rows, d)
    ptrdiff_t[:, ::1] words,        # OUT (rows, 2)
):
    """Parse lines ``word x1 ... xd`` until one is not ordinary, or none is left.

    An ordinary line ends in a line feed, with single spaces between a word and d finite numbers,
    and spaces or carriage returns, if anything, at its end. Return the number of lines parsed into
    the first rows of `values`, and the position of the next line. The same rows of `words` are the
    positions in `text` of the first byte of each word and the byte after it.
    """
    if words.shape[0] < values.shape[0] or words.shape[1] != 2:
        raise ValueError("words must have 2 columns and as many rows as values")
    if not 0 <= start <= text.shape[0]:
        raise ValueError(f"start must be within the text, got {start}")
    if start == text.shape[0] or values.shape[0] == 0 or values.shape[1] == 0:
        return 0, start
    cdef const char *begin = <const char *>&text[0]
    cdef const char *end = begin + text.shape[0]
    cdef const char *line = begin + start
    cdef const char *word_end
    cdef const char *next_line
    cdef ptrdiff_t row = 0
    with nogil:
        while row < values.shape[0] and line < end:
            next_line = <const char *>memchr(line, c"\n", end - line)
            if next_line == NULL:
                break
            next_line += 1
            word_end = parse_row(line, next_line, &values[row, 0], values.shape[1])
            if word_end == NULL:
                break
            words[row, 0] = line - begin
            words[row, 1] = word_end - begin
            row += 1
            line = next_line
    return row, line - begin


cdef const char *parse_row(
    const char *line, const char *next_line, float *values, ptrdiff_t d
) except? NULL nogil:
    """Return the end of the word, or NULL if the line is not ordinary."""
    cdef const char *word_end = <const char *>memchr(line, c" ", next_line - line)
    cdef const char *p = word_end
    cdef ptrdiff_t j
    if p == NULL or p == line:
        return NULL
    for j in range(d):
        if p[0] != c" ":
            return NULL
        p = parse_number(p + 1, values + j)
        if p == NULL:
            return NULL
    while p[0] == c" " or p[0] == c"\r":
        p += 1
    return word_end if p + 1 == next_line else NULL


cdef inline bint is_digit(char c) noexcept nogil:
    return c"0" <= c <= c"9"


cdef const char *parse_number(const char *text, float *value) except? NULL nogil:
    """Return the end of the number, or NULL if there is no number or it is too large.

    Text goes on until something that is no part of a number.
    """
    cdef const char *p = text
    cdef bint negative = p[0] == c"-", negative_power, found = False
    cdef uint64_t digits = 0
    cdef int exponent = 0, power = 0
    cdef double approximate
    cdef float low, high
    cdef char *stop
    if p[0] == c"-" or p[0] == c"+":
        p += 1
    while is_digit(p[0]):
        if digits < FULL:
            digits = 10 * digits + <uint64_t>(p[0] - c"0")
        else:
            exponent += 1
        found = True
        p += 1
    if p[0] == c".":
        p += 1
        while is_digit(p[0]):
            if digits < FULL:
                digits = 10 * digits + <uint64_t>(p[0] - c"0")
                exponent -= 1
            found = True
            p += 1
    if not found:
        return NULL
    if p[0] == c"e" or p[0] == c"E":
        p += 1
        negative_power = p[0] == c"-"
        if p[0] == c"-" or p[0] == c"+":
            p += 1
        if not is_digit(p[0]):
            return NULL
        while is_digit(p[0]):
            if power < 100_000_000:  # more than any line has digits
                power = 10 * power + (p[0] - c"0")
            p += 1
        exponent += -power if negative_power else power
    approximate = <double>digits
    low, high = 0.0, 1.0  # as far as is known
    if digits == 0:
        high = 0.0
    elif -2 * EXACT <= exponent <= EXACT:
        if exponent > 0:
            approximate *= POWERS[exponent]
        elif exponent >= -EXACT:
            approximate /= POWERS[-exponent]
        else:
            approximate /= POWERS[EXACT]
            approximate /= POWERS[-exponent - EXACT]
        if approximate * (1 + MARGIN) < INFINITE:
            low = <float>(approximate * (1 - MARGIN))
            high = <float>(approximate * (1 + MARGIN))
    if low == high:
        value[0] = -low if negative else low
        return p
    with gil:
        approximate = PyOS_string_to_double(text, &stop, NULL)
    if not fabs(approximate) < INFINITE:
        return NULL
    value[0] = <float>approximate
    return p
