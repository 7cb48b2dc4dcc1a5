"""A budget of this machine's CPU for each node: what a node sends beyond it waits in that node's own pipe."""

from __future__ import annotations

SUSTAINED = 0.05
"""Seconds of CPU a second that the samples of one node may take here, sustained: 50 times what they need."""
MOST = 0.25
"""Seconds of CPU that they may take in any one second."""
SAVED = 4.0
"""Seconds of CPU beyond the sustained share that a node may take at first or after a quiet while: after each reconnect
a node sends all facts and the events of all logs again."""


class Share:
    """The CPU budget of one node."""

    __slots__ = ("_saved", "_spent")

    def __init__(self) -> None:
        self._saved = SAVED
        self._spent = 0.0

    @property
    def used_up(self) -> bool:
        """True when nothing more may be read from the node before :meth:`renew`."""
        return self._spent >= min(MOST, SUSTAINED + self._saved)

    @property
    def exceeded(self) -> bool:
        """True while the node is held to its sustained share: it has sent too much for too long."""
        return self._saved < SUSTAINED

    def spend(self, seconds: float) -> None:
        """Note that samples of the node took so many seconds of CPU."""
        self._spent += seconds

    def renew(self) -> None:
        """Start the next second."""
        self._saved = max(0.0, min(SAVED, self._saved + SUSTAINED - self._spent))
        self._spent = 0.0
