"""How much of this machine's time one node may take: what a node sends beyond that waits in the node's own pipe."""

from __future__ import annotations

SUSTAINED = 0.05
"""Seconds of CPU that the samples of one node may take here in each second, for ever: 50 times of what they need."""
MOST = 0.25
"""The same in any one second."""
SAVED = 4.0
"""Seconds beyond those sustained that a node may take at first, or after a quiet while: after each reconnect all that
does not move, and the events of all logs, are told anew."""


class Share:
    """The time of one node."""

    __slots__ = ("_saved", "_spent")

    def __init__(self) -> None:
        self._saved = SAVED
        self._spent = 0.0

    @property
    def used_up(self) -> bool:
        """True when nothing more is to be read of the node before :meth:`renew`."""
        return self._spent >= min(MOST, SUSTAINED + self._saved)

    @property
    def exceeded(self) -> bool:
        """True while the node is held to what is sustained: it has sent too much for too long."""
        return self._saved < SUSTAINED

    def spend(self, seconds: float) -> None:
        """Samples of the node took so much CPU."""
        self._spent += seconds

    def renew(self) -> None:
        """A second has passed."""
        self._saved = max(0.0, min(SAVED, self._saved + SUSTAINED - self._spent))
        self._spent = 0.0
