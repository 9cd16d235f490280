"""Pickles as data: lists, texts and arrays of numbers in them, and nothing else.

A pickle is a program for a machine with a stack, which may call any function. This
machine has the stack and no functions but four, all known: other objects and calls
become inert objects. It also takes no more memory than the file has bytes to
show for, which Python's own does where a file of nine bytes says "put this at index
two billion", and it hashes texts and numbers only, as nested tuples take for ever.
"""

import io
import pickletools
import re

import numpy as np

from ...utils.archives import refuse_more

_KEYS = (str, bytes, int, float, type(None))
_MOST_AXES = 64  # as NumPy has it
# Longer numbers count nothing that is in a file, and take long to hash; so do names.
_LONGEST_INT = 64  # bits
_LONGEST_NAME = 1000


class Inert:
    """An object of any class, or a class; `state` has the last attributes that it was given."""

    __slots__ = ("state",)

    def __init__(self):
        self.state = {}

    def build(self, state):
        if isinstance(state, dict):
            self.state = state


class Type:
    """A dtype, or None for objects that are not numbers."""

    __slots__ = ("dtype",)

    def __init__(self, name=None, *_):
        numbers = isinstance(name, str) and re.fullmatch("f[248]|[iu][1248]", name)
        self.dtype = np.dtype(name) if numbers else None

    def build(self, state):
        if self.dtype is not None and state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class Array:
    """An array of numbers, or None for other arrays."""

    __slots__ = ("array",)

    def __init__(self, *_):
        self.array = None

    def build(self, state):
        _, shape, kind, in_columns, data = state
        self.fill(data, kind, shape, "F" if in_columns else "C")

    def fill(self, data, kind, shape, order, axes=None):
        dtype = getattr(kind, "dtype", None)
        known = isinstance(dtype, np.dtype) and isinstance(data, (bytes, bytearray))
        if known and axes is None:
            if not isinstance(shape, tuple) or len(shape) > _MOST_AXES:
                raise ValueError("expected an array's shape")
            self.array = np.frombuffer(data, dtype).reshape(shape, order=order)
        return self


_FUNCTIONS = {
    ("numpy", "dtype"): Type,
    ("numpy", "_reconstruct"): Array,
    ("numpy", "_frombuffer"): lambda *parts: Array().fill(*parts),
    # Protocols before 3 have bytes as the first 256 characters.
    ("_codecs", "encode"): lambda text, *_: text.encode("latin-1"),
}


def load(data, budget):
    """The object that a pickle, as bytes or a mapped file, describes: made of dicts, lists (also
    for sets), tuples, texts, bytes, numbers, `Array` and `Inert`. Texts may take `budget` bytes
    together. A damaged pickle raises exceptions of any kind.
    """
    machine = _Machine(budget)
    stream = io.BytesIO(data) if isinstance(data, bytes) else data
    stack, memo, at = machine.stack, machine.memo, 0
    # A truncated pickle ends here at the latest, as no code follows.
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
        elif code in _ACTIONS:
            _ACTIONS[code](machine)
        else:
            stream.seek(at - 1)
            operation, operand, _ = next(pickletools.genops(stream))
            machine.step(operation, operand)
            at = stream.tell()
    return stack.pop()


class _Machine:
    def __init__(self, budget):
        self.budget, self.left = budget, budget
        self.stack, self.marks, self.memo = [], [], {}

    def step(self, operation, operand):
        """Take the step of an operation of `pickletools`."""
        if operation.name == "PUT":
            self.memo[operand] = self.stack[-1]
        elif operation.name == "GET":
            self.stack.append(self.memo[operand])
        elif operation.name == "GLOBAL":
            self.push_named(*operand.split(" ", 1))
        elif operation.name == "INST":
            self.push_inert(self.since_mark())
        elif operation.arg is None or operation.name in _REFUSED:
            raise ValueError(f"unknown operation {operation.name}")
        elif isinstance(operand, int) and operand.bit_length() > _LONGEST_INT:
            self.stack.append(None)
        elif operation.name not in ("PROTO", "FRAME"):
            self.stack.append(operand)

    def since_mark(self):
        mark = self.marks.pop()
        items = self.stack[mark:]
        del self.stack[mark:]
        return items

    def pop(self, n_items):
        """Remove and return the last `n_items`, as a tuple."""
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

    def push_dict(self, items):
        self.stack.append({})
        self.fill(items, dict)

    def push_inert(self, _):
        self.stack.append(Inert())

    def push_named(self, module, name):
        path = None
        if isinstance(module, str) and isinstance(name, str):
            # Where within NumPy they are depends on its version.
            path = module[:_LONGEST_NAME].partition(".")[0], name
        self.stack.append(_FUNCTIONS.get(path, Inert()))

    def call(self):
        function, arguments = self.pop(2)
        if callable(function):
            made = function(*arguments[:_MOST_AXES])
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


# The operations by their codes; `pickletools` describes them.
_MEMOIZE, _STOP = 0x94, ord(".")
# Digits of the length of texts; of numbers, some of them indices of the memo.
_TEXTS = {0x8C: 1, ord("X"): 4, 0x8D: 8}
_NUMBERS = {ord(code): size for code, size in zip("hjqrKMJ", (1, 4, 1, 4, 1, 2, 4), strict=True)}
_GETS, _PUTS = {ord("h"), ord("j")}, {ord("q"), ord("r")}
_ACTIONS = {
    ord("N"): lambda machine: machine.stack.append(None),
    0x88: lambda machine: machine.stack.append(True),
    0x89: lambda machine: machine.stack.append(False),
    ord(")"): lambda machine: machine.stack.append(()),
    ord("]"): lambda machine: machine.stack.append([]),
    0x8F: lambda machine: machine.stack.append([]),
    ord("}"): lambda machine: machine.stack.append({}),
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
    ord("d"): lambda machine: machine.push_dict(machine.since_mark()),
    ord("t"): lambda machine: machine.stack.append(tuple(machine.since_mark())),
    0x85: lambda machine: machine.stack.append(machine.pop(1)),
    0x86: lambda machine: machine.stack.append(machine.pop(2)),
    0x87: lambda machine: machine.stack.append(machine.pop(3)),
    ord("R"): _Machine.call,
    ord("b"): _Machine.build,
    ord("o"): lambda machine: machine.push_inert(machine.since_mark()),
    0x81: lambda machine: machine.push_inert(machine.pop(2)),
    0x92: lambda machine: machine.push_inert(machine.pop(3)),
    0x93: lambda machine: machine.push_named(*machine.pop(2)),
    0x98: lambda machine: None,  # makes a buffer read-only
}
# Operations that ask the reader for objects.
_REFUSED = {"PERSID", "EXT1", "EXT2", "EXT4"}
