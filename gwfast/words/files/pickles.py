"""Pickles as data: lists, texts and arrays of numbers in them, and nothing else.

A pickle is a program for a machine with a stack, which may call any function. This
machine has the stack and no functions but four, all known: what else would be made or
called becomes an inert object. It also takes no more memory than the file has bytes to
show for, which Python's own does where a file of nine bytes says "put this at index
two billion", and it hashes texts and numbers only, as nested tuples take for ever.
"""

import codecs
import re
import struct
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...utils.archives import refuse_more

_KEYS = (str, bytes, int, float, type(None))
_MOST_AXES = 64  # as NumPy has it
# Of longer numbers, which count nothing that is in a file, none is made.
_LONGEST_INT = 8
_LONGEST_NAME = 1000


class Inert:
    """Stands for an object of any class, or such a class; `state` is what its
    attributes are said to be, last."""

    __slots__ = ("state",)

    def __init__(self):
        self.state = {}

    def build(self, state):
        if isinstance(state, dict):
            self.state = state


class Type:
    """A dtype; None in its place where it is not of numbers."""

    __slots__ = ("dtype",)

    def __init__(self, name=None, *_):
        numbers = isinstance(name, str) and re.fullmatch("f[248]|[iu][1248]", name)
        self.dtype = np.dtype(name) if numbers else None

    def build(self, state):
        if self.dtype is not None and state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class Array:
    """An array of numbers, or None in its place where it is of anything else."""

    __slots__ = ("array",)

    def __init__(self, *_):
        self.array = None

    def build(self, state):
        _, shape, kind, in_columns, data = state
        self.fill(data, kind, shape, "F" if in_columns else "C")

    def fill(self, data, kind, shape, order, axes=None):
        dtype = getattr(kind, "dtype", None)
        if isinstance(dtype, np.dtype) and isinstance(data, bytes) and axes is None:
            if not isinstance(shape, tuple) or len(shape) > _MOST_AXES:
                raise ValueError("expected an array's shape")
            self.array = np.frombuffer(data, dtype).reshape(shape, order=order)
        return self


class _Function(NamedTuple):
    make: Callable


_FUNCTIONS = {
    ("numpy", "dtype"): _Function(Type),
    ("numpy", "_reconstruct"): _Function(Array),
    ("numpy", "_frombuffer"): _Function(lambda *parts: Array().fill(*parts)),
    # Protocols before 3 have bytes as the first 256 characters.
    ("_codecs", "encode"): _Function(lambda text, *_: text.encode("latin-1")),
}
_ANYTHING = object()


def load(data, budget):
    """The object that a pickle describes: made of dicts, lists (also for sets), tuples,
    texts, bytes, numbers, `Array` and `Inert`.

    Parameters
    ----------
    data : bytes or mmap
    budget : int
        Bytes that texts may be turned into, all together.

    Raises
    ------
    Exception
        Of any kind, where the pickle is damaged.
    """
    machine = _Machine(data, budget)
    stack, memo, at = machine.stack, machine.memo, 0
    # What ends too early is noticed here at the latest, as no code follows.
    while (code := data[at]) != _STOP:
        at += 1
        # Words, and what their numbers take, are most of a file of vectors.
        if code == _MEMOIZE:
            memo[len(memo)] = stack[-1]
        elif code in _TEXTS:
            start = at + _TEXTS[code]
            at = start + int.from_bytes(data[at:start], "little")
            stack.append(str(data[start:at], "utf-8", "surrogatepass"))
        elif code in _NUMBERS:
            start, at = at, at + _NUMBERS[code]
            number = int.from_bytes(data[start:at], "little")
            if code in _GETS:
                stack.append(memo[number])
            elif code in _PUTS:
                memo[number] = stack[-1]
            else:  # the last bit of four bytes is a sign
                stack.append(number if number < 1 << 31 else number - (1 << 32))
        else:
            at = machine.step(code, at)
    return stack.pop()


class _Machine:
    def __init__(self, data, budget):
        self.data, self.budget, self.left = data, budget, budget
        self.stack, self.marks, self.memo = [], [], {}

    def bytes(self, start, stop):
        if stop > len(self.data):
            raise EOFError("the file ends within a value")
        return self.data[start:stop]

    def line(self, at):
        """A line of text, and where the next begins."""
        stop = self.data.find(b"\n", at)
        if stop < 0:
            raise EOFError("the file ends within a value")
        return self.data[at:stop], stop + 1

    def step(self, code, at):
        """Take the step of a code whose operands are at some place; returns where they
        end."""
        if code in _COUNTED:
            n_digits, convert = _COUNTED[code]
            start = at + n_digits
            stop = start + int.from_bytes(self.bytes(at, start), "little")
            self.stack.append(convert(self.bytes(start, stop)))
            return stop
        if code in _LINES:
            line, at = self.line(at)
            self.stack.append(_LINES[code](line))
        elif code in _CONSTANTS:
            self.stack.append(_CONSTANTS[code]())
        elif code in _SKIPPED:
            at += _SKIPPED[code]
        elif code == _FLOAT:
            self.stack.extend(struct.unpack(">d", self.bytes(at, at + 8)))
            at += 8
        elif code in _ACTIONS:
            _ACTIONS[code](self)
        elif code in _NAMES:
            return _NAMES[code](self, at)
        else:
            raise ValueError(f"unknown operation {code:#04x}")
        return at

    def since_mark(self):
        mark = self.marks.pop()
        items = self.stack[mark:]
        del self.stack[mark:]
        return items

    def pop(self, n_items):
        """The last so many, as a tuple."""
        if n_items > len(self.stack):
            raise ValueError("the stack is empty")
        items = tuple(self.stack[-n_items:])
        del self.stack[-n_items:]
        return items

    def fill(self, items, kind):
        """Give the last object what belongs to it, if it is of a kind."""
        into = self.stack[-1]
        if kind is list and isinstance(into, list):
            into.extend(items)
        elif kind is dict and isinstance(into, dict):
            for key, value in zip(items[::2], items[1::2], strict=True):
                if isinstance(key, _KEYS):
                    into[key] = value

    def call(self):
        function, arguments = self.pop(2)
        if isinstance(function, _Function):
            made = function.make(*arguments[:_MOST_AXES])
        else:
            made = Inert()
        if isinstance(made, bytes):  # of a text that may be in the file only once
            self.left -= len(made)
            if self.left < 0:
                raise refuse_more(self.budget)
        self.stack.append(made)

    def build(self):
        state = self.stack.pop()
        build = getattr(self.stack[-1], "build", None)
        if build is not None:
            build(state)

    def name(self):
        module, name = self.pop(2)
        path = None
        if isinstance(module, str) and isinstance(name, str):
            # Where within NumPy they are depends on its version.
            path = module[:_LONGEST_NAME].partition(".")[0], name
        self.stack.append(_FUNCTIONS.get(path, _ANYTHING))

    def named_by_lines(self, at):
        for _ in range(2):
            line, at = self.line(at)
            self.stack.append(line.decode("utf-8"))
        self.name()
        return at

    def object_named_by_lines(self, at):
        self.since_mark()
        at = self.named_by_lines(at)
        self.stack[-1] = Inert()
        return at

    def memo_by_line(self, at):
        line, at = self.line(at)
        self.memo[_integer(line)] = self.stack[-1]
        return at

    def from_memo_by_line(self, at):
        line, at = self.line(at)
        self.stack.append(self.memo[_integer(line)])
        return at


def _integer(line):
    """Of text, as protocols 0 and 1 have it."""
    if line in (b"00", b"01"):
        return line == b"01"
    line = line.rstrip(b"L")
    return int(line) if len(line) <= 20 else None


def _long(data):
    short = len(data) <= _LONGEST_INT
    return int.from_bytes(data, "little", signed=True) if short else None


def _quoted(line):
    return codecs.escape_decode(line.strip()[1:-1])[0].decode("latin-1")


def _push_inert(n_operands):
    def push(machine):
        machine.pop(n_operands)
        machine.stack.append(Inert())

    return push


def _push_tuple(n_items):
    return lambda machine: machine.stack.append(machine.pop(n_items))


def _latin1(data):
    return data.decode("latin-1")


def _unicode(line):
    return line.decode("raw-unicode-escape")


# The operations by their codes, as `pickletools` lists them with what they mean.
_MEMOIZE, _STOP, _FLOAT = 0x94, ord("."), ord("G")
# Digits of the length of texts; of numbers, some of them indices of the memo.
_TEXTS = {0x8C: 1, ord("X"): 4, 0x8D: 8}
_NUMBERS = {
    ord(code): size for code, size in zip("hjqrKMJ", (1, 4, 1, 4, 1, 2, 4), strict=True)
}
_GETS, _PUTS = {ord("h"), ord("j")}, {ord("q"), ord("r")}
# Digits of the length, and what the bytes become.
_COUNTED = {
    ord("U"): (1, _latin1), ord("T"): (4, _latin1),
    ord("C"): (1, bytes), ord("B"): (4, bytes), 0x8E: (8, bytes), 0x96: (8, bytes),
    0x8A: (1, _long), 0x8B: (4, _long),
}  # fmt: skip
_LINES = {
    ord("I"): _integer, ord("L"): _integer, ord("F"): float, ord("S"): _quoted,
    ord("V"): _unicode,
}  # fmt: skip
_CONSTANTS = {
    ord("N"): lambda: None, 0x88: lambda: True, 0x89: lambda: False,
    ord("]"): list, ord("}"): dict, ord(")"): tuple, 0x8F: list,
}  # fmt: skip
# A protocol, the length of a frame, and what makes a buffer read-only.
_SKIPPED = {0x80: 1, 0x95: 8, 0x98: 0}
_ACTIONS = {
    ord("("): lambda machine: machine.marks.append(len(machine.stack)),
    ord("0"): lambda machine: machine.stack.pop(),
    ord("1"): _Machine.since_mark,
    ord("2"): lambda machine: machine.stack.append(machine.stack[-1]),
    ord("a"): lambda machine: machine.fill(machine.pop(1), list),
    ord("e"): lambda machine: machine.fill(machine.since_mark(), list),
    0x90: lambda machine: machine.fill(machine.since_mark(), list),
    ord("s"): lambda machine: machine.fill(machine.pop(2), dict),
    ord("u"): lambda machine: machine.fill(machine.since_mark(), dict),
    ord("l"): lambda machine: machine.stack.append(machine.since_mark()),
    0x91: lambda machine: machine.stack.append(machine.since_mark()),
    ord("t"): lambda machine: machine.stack.append(tuple(machine.since_mark())),
    0x85: _push_tuple(1), 0x86: _push_tuple(2), 0x87: _push_tuple(3),
    ord("R"): _Machine.call, ord("b"): _Machine.build, 0x93: _Machine.name,
    0x81: _push_inert(2), 0x92: _push_inert(3),
}  # fmt: skip
_NAMES = {
    ord("c"): _Machine.named_by_lines, ord("i"): _Machine.object_named_by_lines,
    ord("p"): _Machine.memo_by_line, ord("g"): _Machine.from_memo_by_line,
}  # fmt: skip


def _dict_of_items(machine):
    items = machine.since_mark()
    machine.stack.append({})
    machine.fill(items, dict)


def _object_of_items(machine):
    machine.since_mark()
    machine.stack.append(Inert())


_ACTIONS[ord("d")] = _dict_of_items
_ACTIONS[ord("o")] = _object_of_items
