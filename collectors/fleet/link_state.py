"""The state of a node's link, and the delay before the next attempt to connect."""

from __future__ import annotations

import random
import time

from collectors.fleet.sink import Link, LinkChange, Sink

FIRST = 0.5
MOST = 8.0
"""Seconds between attempts at a node that does not answer; such a node is live again within 15 s of its return."""
REFUSED = 60.0
REFUSED_MOST = 600.0
"""Seconds between attempts where a person must act first: seldom enough that no server bars this machine."""


class LinkState:
    """The state of one link and its reason; the sink is told of each change."""

    __slots__ = ("_name", "_sink", "_told", "link", "quiet", "why")

    def __init__(self, name: str, sink: Sink) -> None:
        self._name = name
        self._sink = sink
        self._told: tuple[Link, str, float | None] | None = None
        self.link: Link = "connecting"
        self.why = ""
        self.quiet = False
        """True once the link is being closed: no further change is told."""

    def __str__(self) -> str:
        """``lost: why``."""
        return f"{self.link}: {self.why}" if self.why else self.link

    def change(self, link: Link, why: str = "", next_try: float | None = None) -> None:
        """Set the state; ``next_try`` is the wall-clock time of the next attempt."""
        self.link, self.why = link, why
        self._tell(link, why, next_try)

    def _tell(self, link: Link, why: str, next_try: float | None) -> None:
        if not self.quiet and (link, why, next_try) != self._told:
            self._told = (link, why, next_try)
            self._sink.link(LinkChange(self._name, link, why, time.time(), next_try))


class Backoff:
    """Delays that double, with jitter so that nodes lost together do not reconnect together."""

    __slots__ = ("_failures", "_refusals")

    def __init__(self) -> None:
        self._failures = 0
        self._refusals = 0

    def failed(self) -> float:
        """Delay in seconds after one more failure."""
        self._failures += 1
        return _jitter(min(MOST, FIRST * 2.0 ** (self._failures - 1)))

    def refused(self) -> float:
        """Delay in seconds after one more refusal."""
        self._refusals += 1
        return _jitter(min(REFUSED_MOST, REFUSED * 2.0 ** (self._refusals - 1)))

    def succeeded(self) -> None:
        """Reset both delays."""
        self._failures = self._refusals = 0


def _jitter(seconds: float) -> float:
    return seconds * random.uniform(0.6, 1.0)  # noqa: S311 (no secret)
