"""Pickles of plain data, judged opcode by opcode before anything is built of them.

A pickle is a program. Even one that imports nothing can make the interpreter fall (deep tuples as keys), reserve a
gigabyte with nine bytes (an index of the memo), or describe more than any memory holds (one list that refers ten times
to another, which refers …). Here the program runs on the sizes of things alone. What it may do: numbers, texts, lists,
tuples, dictionaries whose keys are numbers or texts, and references to what was finished before. (Opcodes: Python's
``pickletools``, protocols 2 to 5.)
"""

from __future__ import annotations

import io
import pickle
from typing import NoReturn, TypeAlias

from collectors.formats import BadFormat

WEIGHT = 8_000_000
"""Values that a document may have, a text counting once for each 32 characters, references as what they refer to."""
BUILT = 256 << 20
"""Bytes of memory that may be built of a pickle, each thing once: 10,000 entries with stacks of 40 frames take 170."""
DEPTH = 32
"""Containers within one another."""
LONGEST_NUMBER = 64
"""Bytes of an integer."""

_DAMAGED = (
    pickle.UnpicklingError, EOFError, IndexError, KeyError, ValueError, TypeError, AttributeError, OverflowError,
    MemoryError, RecursionError, ImportError,
)  # fmt: skip
"""What the pickle module documents for damaged input, and what its opcodes raise on operands of a wrong type."""


class _Container:
    """A list or dictionary: how much it holds, how deep, and whether something refers to it already."""

    __slots__ = ("closed", "depth", "weight")

    def __init__(self) -> None:
        self.weight = 1
        self.depth = 1
        self.closed = False


_Value: TypeAlias = "int | _Container"
"""The weight of a number or a text; a list or dictionary; or, below 0, a tuple (:func:`_finished`). Millions of values
must take less here than they would once they are built."""
_EMPTY = 0
"""A list or dictionary that nothing was put into and nothing refers to."""
_DEPTHS = 64
"""A number beyond all depths of a tuple: its weight is counted in these."""

# What CPython's objects take, in bytes, at most: CPython 3.11 to 3.13, 64 bits, with the collector's header.
_LIST, _DICT, _TUPLE, _TEXT, _WIDE_TEXT, _NUMBER, _REFERENCE, _REMEMBERED = 56, 64, 56, 64, 96, 32, 9, 16
_FIRST_ITEMS, _FIRST_IN_LIST, _ITEM = 168, 32, 56
"""What the first items of a dictionary take beside :data:`_DICT`, and of a list; what each further one of the first."""


class _PlainData(pickle.Unpickler):
    """An unpickler that makes containers and scalars, and refuses whatever would import or call something."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module}.{name}; a dump is plain data")

    def persistent_load(self, pid: object) -> NoReturn:  # noqa: ARG002 - pickle's signature
        raise pickle.UnpicklingError("it refers to something outside itself")


def load(data: bytes) -> object:
    """The document of a pickle. Raises :class:`BadFormat` for damaged ones and those that are more than plain data."""
    try:
        end = _Judge(data).run()
        return _PlainData(io.BytesIO(data[:end])).load()
    except _DAMAGED as error:
        raise BadFormat(f"no plain data: {error}") from error


# Opcodes by what they do: bytes of their operand, or of the length in front of it.
_SCALARS = {b"N": 0, b"\x88": 0, b"\x89": 0, b"J": 4, b"K": 1, b"M": 2, b"G": 8}
_TEXTS = {b"X": 4, b"\x8c": 1, b"\x8d": 8, b"U": 1, b"T": 4, b"C": 1, b"B": 4, b"\x8e": 8}
_PUTS = {b"q": 1, b"r": 4}
_GETS = {b"h": 1, b"j": 4}
_TUPLES = {b")": 0, b"\x85": 1, b"\x86": 2, b"\x87": 3}
_SKIPPED = {b"\x80": 1, b"\x95": 8}
_SIMPLE = {op[0]: length for op, length in _SCALARS.items()}
_SIZED = {op[0]: length for op, length in _TEXTS.items()}
_PUT = {op[0]: length for op, length in _PUTS.items()}
_GET = {op[0]: length for op, length in _GETS.items()}
_OF_TOP = {op[0]: count for op, count in _TUPLES.items()}
_NO_VALUE = {op[0]: length for op, length in _SKIPPED.items()}
_MARK, _LONG, _MEMOIZE, _STOP, _FROM_MARK = 0x28, 0x8A, 0x94, 0x2E, 0x74
_OPEN = {b"]"[0]: _LIST, b"}"[0]: _DICT}


class _Judge:
    """Runs a pickle on the sizes of things."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._stack: list[_Value] = []
        self._marks: list[int] = []
        self._memo: list[_Value] = []
        self._left = BUILT

    def run(self) -> int:
        """Where the pickle ends. Raises :class:`pickle.UnpicklingError` and what lists raise."""
        data, stack = self._data, self._stack
        while True:
            op = data[self._at]
            self._at += 1
            if op in _SIMPLE:
                size = _SIMPLE[op]
                self._at += size
                if size > 1:  # the least numbers are there already
                    self._left -= _NUMBER
                stack.append(1)
            elif op in _SIZED:
                size = self._number(_SIZED[op])
                begin, self._at = self._at, self._at + size
                # one character beyond the first plane makes all of them take four bytes
                self._left -= _TEXT + size if data[begin : self._at].isascii() else _WIDE_TEXT + 4 * size
                stack.append(1 + size // 32)
            elif op in _GET:
                stack.append(self._memo[self._number(_GET[op])])
            elif op == _STOP:
                if len(stack) != 1 or self._marks or self._at > len(data):
                    raise pickle.UnpicklingError("it ends in the middle of something")
                return self._at
            else:
                self._other(op)
            if len(stack) > WEIGHT or self._left < 0:
                raise pickle.UnpicklingError(f"it holds too much: more than {BUILT >> 20} MB of memory")

    def _other(self, op: int) -> None:
        """Opcodes that make no number and no text."""
        if op in _PUT:
            self._put(self._number(_PUT[op]))
        elif op == _MEMOIZE:
            self._put(len(self._memo))
        elif op == _MARK:
            self._marks.append(len(self._stack))
        elif op in _OPEN:
            self._left -= _OPEN[op]
            self._stack.append(_EMPTY)
        elif op == _LONG:
            size = self._number(1)
            if size > LONGEST_NUMBER:
                raise pickle.UnpicklingError(f"a number of {size} bytes")
            self._at += size
            self._left -= _TEXT + size
            self._stack.append(1)
        elif op in _NO_VALUE:
            self._at += _NO_VALUE[op]
        else:
            self._fill(op)

    def _number(self, size: int) -> int:
        begin, self._at = self._at, self._at + size
        return int.from_bytes(self._data[begin : self._at], "little")

    def _put(self, index: int) -> None:
        # who writes a pickle counts: an index beyond that is there to make a table of its size
        if index > len(self._memo):
            raise pickle.UnpicklingError(f"it refers to a place {index} in its memory")
        value = self._stack[-1]
        if value is _EMPTY:
            value = self._stack[-1] = _Container()
        if index == len(self._memo):
            self._left -= _REMEMBERED
            self._memo.append(value)
        else:
            self._memo[index] = value

    def _fill(self, op: int) -> None:
        """Opcodes that put values into containers."""
        stack = self._stack
        if op in _OF_TOP or op == _FROM_MARK:
            items = self._items() if op == _FROM_MARK else self._top(_OF_TOP[op])
            made = _Container()
            self._take(made, items)
            self._left -= _TUPLE if items else 0
            stack.append(_finished(made))
        elif op == 0x61:  # APPEND
            self._add(self._top(1))
        elif op == 0x65:  # APPENDS
            self._add(self._items())
        elif op == 0x73:  # SETITEM
            self._add(self._top(2), keys=True)
        elif op == 0x75:  # SETITEMS
            self._add(self._items(), keys=True)
        else:
            raise pickle.UnpicklingError(f"a dump has no opcode {bytes((op,))!r}: it is plain data")

    def _top(self, count: int) -> list[_Value]:
        if not count:
            return []
        if len(self._stack) - (self._marks[-1] if self._marks else 0) < count:
            raise pickle.UnpicklingError("its stack is empty")
        items = self._stack[-count:]
        del self._stack[-count:]
        return items

    def _items(self) -> list[_Value]:
        begin = self._marks.pop()
        items = self._stack[begin:]
        del self._stack[begin:]
        return items

    def _add(self, items: list[_Value], *, keys: bool = False) -> None:
        target = self._stack[-1]
        if target is _EMPTY:
            target = self._stack[-1] = _Container()
        if not isinstance(target, _Container) or target.closed:
            raise pickle.UnpicklingError("it changes what is finished")
        if keys and any(isinstance(key, _Container) or key <= _EMPTY for key in items[::2]):
            raise pickle.UnpicklingError("a key is neither number nor text")
        first = target.weight == 1 and len(items) > 0
        if keys:
            self._left -= max(len(items) // 2 * _ITEM, _FIRST_ITEMS * first)
        else:
            self._left -= _FIRST_IN_LIST * first
        self._take(target, items)

    def _take(self, into: _Container, items: list[_Value]) -> None:
        self._left -= len(items) * _REFERENCE
        for item in items:
            weight, depth = _size(item)
            into.weight += weight
            into.depth = max(into.depth, depth + 1)
            if isinstance(item, _Container):
                if item is into:
                    raise pickle.UnpicklingError("it holds itself")
                item.closed = True
        if into.weight > WEIGHT:
            raise pickle.UnpicklingError(f"it describes more than {WEIGHT:,} values")
        if into.depth > DEPTH:
            raise pickle.UnpicklingError(f"it is nested more than {DEPTH} deep")


def _finished(made: _Container) -> int:
    """What can no longer change, as one number below 0."""
    return -(made.weight * _DEPTHS + made.depth)


def _size(value: _Value) -> tuple[int, int]:
    """How many values one is and how many containers deep, 0 for a number or a text."""
    if isinstance(value, _Container):
        return value.weight, value.depth
    if value > _EMPTY:
        return value, 0
    return (1, 1) if value is _EMPTY else divmod(-value, _DEPTHS)
