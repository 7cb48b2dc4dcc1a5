"""Where a fleet delivers: what came from the nodes, and how their connections are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

Link = Literal["connecting", "live", "limited", "stale", "lost", "offline"]


@dataclass(frozen=True, slots=True)
class LinkChange:
    """A node's connection came into a new state.

    ``why`` is for people and names what to do; ``next_try`` is when the next attempt is made (this machine's
    ``time.time()``), None when none is planned.
    """

    node: str
    link: Link
    why: str
    at: float
    next_try: float | None = None


class Sink(Protocol):
    """Receiver of everything that a fleet has to say. Called on the event loop; must return at once."""

    def samples(self, node: str, samples: Sequence[NamedTuple], size: int) -> None:
        """Decoded samples of one chunk, in order, and the bytes that they came in. ``Tick`` ends a flush."""

    def link(self, change: LinkChange) -> None:
        """A node's connection changed its state."""

    def bad_line(self, node: str, text: str, why: str) -> None:
        """A line that did not decode; ``text`` is its cleaned beginning."""
