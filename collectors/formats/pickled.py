"""Pickles of plain data: numbers, texts, lists, tuples and dictionaries; no name in them is imported or called.

CPython's unpickler in Python is used, because the one in C allocates a table of a size that the pickle chooses.
"""

from __future__ import annotations

import io
import pickle
import struct
from typing import NoReturn

from collectors.formats import BadFormat

VALUES = 8_000_000
"""Most values of a document; a shared value counts at each reference. 10,000 entries with stacks of 40 frames have 1.5
million."""
DEPTH = 32
"""Deepest nesting of containers."""

_DAMAGED = (
    pickle.UnpicklingError, EOFError, struct.error, LookupError, TypeError, ValueError, AttributeError, MemoryError,
)  # fmt: skip


def load(data: bytes) -> object:
    """Load a pickle. Raises :class:`BadFormat` for a damaged pickle, or for more than plain data."""
    try:
        document = _PlainUnpickler(io.BytesIO(data)).load()
    except _DAMAGED as error:
        raise BadFormat(f"no plain data: {error}") from error
    _check(document)
    return document


class _PlainUnpickler(pickle._Unpickler):  # noqa: SLF001 - public in all but its name
    """Refuses every name, so that a pickle has nothing to call."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuse. Raises :class:`pickle.UnpicklingError`."""
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def _check(document: object) -> None:
    """Refuse documents that are too large, or contain themselves. Raises :class:`BadFormat`."""
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
