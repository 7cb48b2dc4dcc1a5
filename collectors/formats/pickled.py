"""Pickles of plain data: numbers, texts, lists, tuples and dictionaries; nothing in them is imported or called.

Python's own reader in Python is used, not that in C: a table of a size that the pickle names is not made there.
"""

from __future__ import annotations

import io
import pickle
import struct
from typing import NoReturn

from collectors.formats import BadFormat

VALUES = 8_000_000
"""Values that a document may describe, a shared one counting as often as it is referred to; 10,000 entries with stacks
of 40 frames have 1.5 million."""
DEPTH = 32
"""Containers within one another."""

_DAMAGED = (
    pickle.UnpicklingError, EOFError, struct.error, LookupError, TypeError, ValueError, AttributeError, MemoryError,
)  # fmt: skip


def load(data: bytes) -> object:
    """The document of a pickle. Raises :class:`BadFormat` for damaged ones and those that are more than plain data."""
    try:
        document = _PlainUnpickler(io.BytesIO(data)).load()
    except _DAMAGED as error:
        raise BadFormat(f"no plain data: {error}") from error
    _check(document)
    return document


class _PlainUnpickler(pickle._Unpickler):  # noqa: SLF001 - public in all but its name
    """Refuses every name: without one a pickle has nothing that it could call."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuse. Raises :class:`pickle.UnpicklingError`."""
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def _check(document: object) -> None:
    """Refuse what describes too much, or holds itself. Raises :class:`BadFormat`."""
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
