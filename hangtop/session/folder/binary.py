"""Files that are no text."""

from __future__ import annotations

import re

_HOLE = re.compile(rb"\0{32,}")


def is_binary(head: bytes) -> bool:
    """Whether a file that begins so is no text: zeros, or mostly bytes that no text has.

    A row of zeros is a hole: of a log that was emptied, or cut short by a crash, while somebody wrote it.
    """
    text = _HOLE.sub(b"", head)
    if len(text) < len(head) and any(byte < 9 or byte == 127 for byte in text[:4096]):
        return True  # what has both is a program, or a core
    sample = text[:4096] or head[:4096]
    odd = sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in sample)
    return sample.count(0) > len(sample) // 64 or odd * 5 > len(sample)
