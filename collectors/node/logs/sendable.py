"""Values of an event as they may leave the node: without secrets, their texts bounded."""

from __future__ import annotations

from typing import Optional

from collectors.node import redact
from collectors.samples.values import Value

TEXT = 4000
"""Characters of the text of an event."""


def value(of: Value) -> Value:
    """A value of an event, its texts no longer than the other side takes them."""
    if isinstance(of, list):
        return [text(item) if isinstance(item, str) else item for item in of]
    return text(of) if isinstance(of, str) else of


def text(of: str) -> str:
    """A text without secrets."""
    # redacted before it is cut: half a token is none by its shape
    return redact.shapes(of[: 4 * TEXT])[:TEXT]


def number(of: Optional[int], most: int) -> Optional[int]:
    """The number of a rank or a process; what is beyond the largest there can be is none."""
    return of if of is not None and -1 <= of <= most else None
