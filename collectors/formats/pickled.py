"""Pickles of plain data: numbers, texts, lists, tuples, and dictionaries whose keys are numbers or texts.

A pickle is a program, and who wrote it may be hostile. This reader knows the opcodes of plain data alone (Python's
``pickletools``, protocols 2 to 5): none of them imports, calls or sets anything. How much they build is bounded, and so
is how much shared references describe: a list that refers ten times to a list that refers ten times to …
"""

from __future__ import annotations

import struct
from collections.abc import Hashable

from collectors.formats import BadFormat

VALUES = 8_000_000
"""Values that a document may describe, a shared one counting as often as it is referred to; 10,000 entries with stacks
of 40 frames have 1.5 million."""
BUILT = 2_000_000
"""Containers, texts and large numbers that may be built: 200 MB and the texts themselves."""
DEPTH = 32
"""Containers within one another."""
LONGEST_NUMBER = 64
"""Bytes of an integer."""

_NO_OPERAND: dict[int, object] = {0x4E: None, 0x88: True, 0x89: False}
_FIXED = {0x4A: "<i", 0x4B: "<B", 0x4D: "<H", 0x47: ">d"}
"""BININT, BININT1, BININT2, BINFLOAT."""
_SIZED = {
    0x58: (4, True), 0x8C: (1, True), 0x8D: (8, True), 0x54: (4, True), 0x55: (1, True), 0x42: (4, False),
    0x43: (1, False), 0x8E: (8, False),
}  # fmt: skip
"""Texts and bytes: how many bytes their length has, and whether they are texts."""
_PUT, _GET = {0x71: 1, 0x72: 4}, {0x68: 1, 0x6A: 4}
_TUPLES = {0x29: 0, 0x85: 1, 0x86: 2, 0x87: 3}
_SKIPPED = {0x80: 1, 0x95: 8}
"""PROTO, FRAME."""
_MARK, _STOP, _LIST, _DICT, _TUPLE, _LONG1, _MEMOIZE = 0x28, 0x2E, 0x5D, 0x7D, 0x74, 0x8A, 0x94
_APPEND, _APPENDS, _SETITEM, _SETITEMS = 0x61, 0x65, 0x73, 0x75


def load(data: bytes) -> object:
    """The document of a pickle. Raises :class:`BadFormat` for damaged ones and those that are more than plain data."""
    try:
        document = _PickleReader(data).run()
    except (IndexError, ValueError, struct.error) as error:
        raise BadFormat(f"no plain data: {error}") from error
    _check(document)
    return document


class _PickleReader:
    """Builds the document of one pickle."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._stack: list[object] = []
        self._marks: list[int] = []
        self._memo: list[object] = []
        self._left = BUILT

    def run(self) -> object:
        """The document. Raises :class:`BadFormat`, and what lists, slices and numbers raise."""
        data, stack = self._data, self._stack
        while True:
            op = data[self._at]
            self._at += 1
            if op in _SIZED:
                size, is_text = _SIZED[op]
                raw = self._take(self._number(size))
                self._build(raw.decode("utf-8", "surrogatepass") if is_text else raw)
            elif op in _GET:
                stack.append(self._memo[self._number(_GET[op])])
            elif op in _PUT:
                self._remember(self._number(_PUT[op]))
            elif op == _MEMOIZE:
                self._remember(len(self._memo))
            elif op in _FIXED:
                stack.append(struct.unpack(_FIXED[op], self._take(struct.calcsize(_FIXED[op])))[0])
            elif op in _NO_OPERAND:
                stack.append(_NO_OPERAND[op])
            elif op == _STOP:
                if len(stack) != 1 or self._marks:
                    raise BadFormat("no plain data: it ends in the middle of something")
                return stack[0]
            else:
                self._contain(op)
            if len(stack) > VALUES:
                raise BadFormat(f"no plain data: more than {VALUES:,} values")

    def _contain(self, op: int) -> None:
        """Opcodes of containers, and the rare ones."""
        if op == _MARK:
            self._marks.append(len(self._stack))
        elif op == _LIST:
            self._build([])
        elif op == _DICT:
            self._build({})
        elif op in _TUPLES:
            self._build(tuple(self._top(_TUPLES[op])))
        elif op == _TUPLE:
            self._build(tuple(self._marked()))
        elif op in (_APPEND, _APPENDS):
            items = self._top(1) if op == _APPEND else self._marked()
            target = self._stack[-1]
            if not isinstance(target, list):
                raise BadFormat("no plain data: it appends to what is no list")
            target += items
        elif op in (_SETITEM, _SETITEMS):
            self._set(self._top(2) if op == _SETITEM else self._marked())
        elif op == _LONG1:
            size = self._number(1)
            if size > LONGEST_NUMBER:
                raise BadFormat(f"no plain data: a number of {size} bytes")
            self._build(int.from_bytes(self._take(size), "little", signed=True))
        elif op in _SKIPPED:
            self._take(_SKIPPED[op])
        else:
            raise BadFormat(f"no plain data: a dump has no opcode {bytes((op,))!r}")

    def _set(self, items: list[object]) -> None:
        target = self._stack[-1]
        if not isinstance(target, dict) or len(items) % 2:
            raise BadFormat("no plain data: it sets items of what is no dictionary")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if isinstance(key, tuple) or not isinstance(key, Hashable):
                raise BadFormat("no plain data: a key is neither number nor text")
            target[key] = value

    def _build(self, value: object) -> None:
        self._left -= 1
        if self._left < 0:
            raise BadFormat(f"no plain data: more than {BUILT:,} texts and containers")
        self._stack.append(value)

    def _take(self, size: int) -> bytes:
        begin, self._at = self._at, self._at + size
        if self._at > len(self._data):
            raise BadFormat("no plain data: it is cut off")
        return self._data[begin : self._at]

    def _number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "little")

    def _remember(self, index: int) -> None:
        # a writer counts: an index beyond that is there to make a table of its size
        if index > len(self._memo):
            raise BadFormat(f"no plain data: it refers to a place {index} in its memory")
        self._memo[index : index + 1] = [self._stack[-1]]

    def _top(self, count: int) -> list[object]:
        if len(self._stack) - (self._marks[-1] if self._marks else 0) < count:
            raise BadFormat("no plain data: its stack is empty")
        items = self._stack[len(self._stack) - count :]
        del self._stack[len(self._stack) - count :]
        return items

    def _marked(self) -> list[object]:
        return self._top(len(self._stack) - self._marks.pop())


def _check(document: object) -> None:
    """Refuse what describes too much. Raises :class:`BadFormat`."""
    left, level, depth = VALUES, [document], 0
    while level:
        left -= len(level)
        depth += 1
        if left < 0 or depth > DEPTH + 1:
            raise BadFormat(f"no plain data: more than {VALUES:,} values, or nested more than {DEPTH} deep")
        within: list[object] = []
        for value in level:
            if isinstance(value, (list, tuple)):
                within += value
            elif isinstance(value, dict):
                within += value.values()
            if len(within) > left:
                raise BadFormat(f"no plain data: more than {VALUES:,} values")
        level = within
