"""The interface through which a fleet delivers samples and states of links."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

Link = Literal["connecting", "live", "limited", "stale", "lost", "offline"]


@dataclass(frozen=True, slots=True)
class LinkChange:
    """The new state of a node's link; ``why`` is text for the user and says what to do."""

    node: str
    link: Link
    why: str
    at: float
    refused: bool = False
    """The node, or this machine, refuses the login: it is no dead node."""


class Sink(Protocol):
    """Receiver of a fleet's samples and link states. Called on the event loop; must return at once."""

    def samples(self, node: str, samples: Sequence[NamedTuple]) -> None:
        """Take the decoded samples of one chunk of output, in order. ``Tick`` ends a flush."""

    def link(self, change: LinkChange) -> None:
        """Take a node's new link state."""

    def bad_line(self, node: str, text: str, why: str, lines: int = 1) -> None:
        """Take a line that did not decode; ``text`` is its cleaned beginning, ``lines`` the bad lines it stands for."""


@dataclass(frozen=True, slots=True)
class HostKeyQuestion:
    """The question whether to trust the so far unknown key of a host from now on."""

    node: str
    host: str
    """Name in known_hosts, with the port unless it is 22."""
    key: str
    """Algorithm and fingerprint."""


Asker = Callable[[HostKeyQuestion], Awaitable[bool | None]]
"""Asks the user; the answer is None if there is no user to ask."""
