"""What a node's link is shown as, and how long it waits before the next attempt."""

from __future__ import annotations

import random
import time

from collectors.fleet.sink import Link, LinkChange, Sink

FIRST = 0.5
MOST = 8.0
"""Seconds between attempts at a node that does not answer: it is back on the screen within 15 s of being back."""
REFUSED = 60.0
REFUSED_MOST = 600.0
"""The same where somebody must act first: often enough to notice, too seldom to be barred for it."""


class LinkState:
    """The state of one link and the reason, told to the sink when either changes."""

    __slots__ = ("_name", "_sink", "_told", "link", "quiet", "why")

    def __init__(self, name: str, sink: Sink) -> None:
        self._name = name
        self._sink = sink
        self._told: tuple[Link, str, float | None] | None = None
        self.link: Link = "connecting"
        self.why = ""
        self.quiet = False
        """True once nothing is to be told any more: it is being closed."""

    def __str__(self) -> str:
        """``lost: why``."""
        return f"{self.link}: {self.why}" if self.why else self.link

    def change(self, link: Link, why: str = "", next_try: float | None = None) -> None:
        """It is this now; ``next_try`` is the wall clock of the next attempt."""
        self.link, self.why = link, why
        self._tell(link, why, next_try)

    def waits_for(self, reason: str) -> None:
        """It waits for a person, or, with an empty reason, for nothing more than the network."""
        self._tell(self.link, reason or self.why, None)

    def _tell(self, link: Link, why: str, next_try: float | None) -> None:
        if not self.quiet and (link, why, next_try) != self._told:
            self._told = (link, why, next_try)
            self._sink.link(LinkChange(self._name, link, why, time.time(), next_try))


class Backoff:
    """Waits that double, each drawn at random so that nodes lost together do not come back together."""

    __slots__ = ("_failures", "_refusals")

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
