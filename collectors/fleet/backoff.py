"""How long to wait before the next attempt at a node."""

from __future__ import annotations

import random

FIRST = 0.5
MOST = 8.0
"""Seconds between attempts at a node that does not answer: it is back on the screen within 15 s of being back."""

REFUSED = 60.0
REFUSED_MOST = 600.0
"""The same where somebody must act first: often enough to notice, too seldom to be barred for it."""


class Backoff:
    """Waits that double, each drawn at random so that nodes lost together do not come back together."""

    __slots__ = (
        "_failures",
        "_refusals",
    )

    def __init__(self) -> None:
        self._failures = 0
        self._refusals = 0

    def failed(self) -> float:
        """Seconds to wait after one more failure."""
        self._failures += 1
        return _jitter(min(MOST, FIRST * 2.0 ** (self._failures - 1)))

    def refused(self) -> float:
        """Seconds to wait after one more refusal."""
        self._refusals += 1
        return _jitter(min(REFUSED_MOST, REFUSED * 2.0 ** (self._refusals - 1)))

    def succeeded(self) -> None:
        """Begin anew."""
        self._failures = self._refusals = 0


def _jitter(seconds: float) -> float:
    return seconds * random.uniform(0.6, 1.0)  # noqa: S311 (no secret)
