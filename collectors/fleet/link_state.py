"""What a node's link is shown as, told to the sink when it changes."""

from __future__ import annotations

import time

from collectors.fleet.sink import Link, LinkChange, Sink


class LinkState:
    """The state of one link, why, and what it is when all is well there."""

    __slots__ = ("_name", "_said", "_sink", "link", "quiet", "steady", "steady_why", "why")

    def __init__(self, name: str, sink: Sink) -> None:
        self._name = name
        self._sink = sink
        self._said: tuple[Link, str, float | None] | None = None
        self.link: Link = "connecting"
        self.why = ""
        self.steady: Link = "live"
        """What it is while samples come: ``limited`` where only some can."""
        self.steady_why = ""
        self.quiet = False
        """True once nothing is to be told any more: it is being closed."""

    def __str__(self) -> str:
        """``lost: why``."""
        return f"{self.link}: {self.why}" if self.why else self.link

    def change(self, link: Link, why: str = "", next_try: float | None = None) -> None:
        """It is this now; ``next_try`` is the wall clock of the next attempt."""
        self.link, self.why = link, why
        self._tell(link, why, next_try)

    def recover(self) -> None:
        """It is what it is when all is well."""
        self.change(self.steady, self.steady_why)

    def waits_for(self, reason: str) -> None:
        """It waits for a person, or, with an empty reason, for nothing more than the network."""
        self._tell(self.link, reason or self.why, None)

    def _tell(self, link: Link, why: str, next_try: float | None) -> None:
        if not self.quiet and (link, why, next_try) != self._said:
            self._said = (link, why, next_try)
            self._sink.link(LinkChange(self._name, link, why, time.time(), next_try))
