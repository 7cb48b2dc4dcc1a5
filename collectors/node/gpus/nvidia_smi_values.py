"""Values as nvidia-smi writes them in all its formats: ``97``, ``97 %``, ``627.40 W``, ``0x4``, ``[N/A]``, ``ERR!``."""

from __future__ import annotations

import re
from typing import Dict, Optional

_ABSENT = re.compile(
    r"\[?(N/A|Not (Supported|Available|Found)|None|Insufficient Permissions|No permissions"
    r"|Requested functionality has been deprecated|Deprecated)\]?|-|",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"([-+]?\d{1,18}(?:\.\d{1,9})?)\s*(%|W|MHz|MiB|GiB|KiB|C|us|x|bank\(s\))?", re.IGNORECASE)
_SIGNED = (1 << 63) - 1
"""What reads numbers of 64 bits takes signed ones."""
_LARGEST_SIZE = 1e12
"""MiB."""
_MASK = re.compile(r"0x[0-9a-fA-F]{1,16}")
_TRUE = frozenset({"yes", "active", "enabled", "true"})
_FALSE = frozenset({"no", "not active", "disabled", "false", "none"})


class GpuValues:
    """The cells of one row by our names of the columns. What cannot be read is kept verbatim in ``odd``."""

    def __init__(self, cells: Dict[str, str]) -> None:
        self._cells = cells
        self.odd: Dict[str, str] = {}

    def text(self, key: str) -> str:
        """A word or name; empty when it is not available."""
        cell = self._cells.get(key, "").strip()
        return "" if _ABSENT.fullmatch(cell) else cell

    def decimal(self, key: str) -> Optional[float]:
        """A number without its unit."""
        cell = self._cells.get(key, "").strip()
        found = _NUMBER.fullmatch(cell)
        if found:
            return float(found.group(1))
        self._note(key, cell)
        return None

    def whole(self, key: str) -> Optional[int]:
        """A number without its unit, as an integer."""
        value = self.decimal(key)
        return None if value is None else int(value)

    def mebibytes(self, key: str) -> Optional[int]:
        """A size that nvidia-smi gives in MiB, in bytes."""
        value = self.decimal(key)
        return None if value is None or abs(value) > _LARGEST_SIZE else int(value * (1 << 20))

    def mask(self, key: str) -> Optional[int]:
        """A bit mask."""
        cell = self._cells.get(key, "").strip()
        if _MASK.fullmatch(cell):
            return int(cell, 16) & _SIGNED
        self._note(key, cell)
        return None

    def truth(self, key: str) -> Optional[bool]:
        """Yes or no."""
        cell = self._cells.get(key, "").strip()
        word = cell.lower()
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
        count = _NUMBER.fullmatch(cell)
        if count:
            return float(count.group(1)) != 0
        self._note(key, cell)
        return None

    def _note(self, key: str, cell: str) -> None:
        if not _ABSENT.fullmatch(cell):
            self.odd[key] = cell[:80]
