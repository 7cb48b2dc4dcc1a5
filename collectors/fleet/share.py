"""A budget of this machine's CPU for each node: output beyond the budget waits in the node's own pipe."""

from __future__ import annotations

SUSTAINED = 0.05
"""Seconds of CPU per second that the samples of one node may take here, sustained: 50 times what they need."""
MOST = 0.25
"""Seconds of CPU that they may take in any one second."""
SAVED = 4.0
"""Seconds of CPU beyond the sustained share that a node may use at first or after a quiet period: after each reconnect
a node sends all facts and the events of all logs again."""


class Share:
    """The CPU budget of one node."""

    __slots__ = ("_saved", "_spent")

    def __init__(self) -> None:
        self._saved = SAVED
        self._spent = 0.0

    @property
    def used_up(self) -> bool:
        """True if nothing more may be read from the node before :meth:`renew`."""
        return self._spent >= min(MOST, SUSTAINED + self._saved)

    @property
    def exceeded(self) -> bool:
        """True while the node is limited to its sustained share, because it has sent too much for too long."""
        return self._saved < SUSTAINED

    def spend(self, seconds: float) -> None:
        """Charge ``seconds`` of CPU, spent on the node's samples, to its budget."""
        self._spent += seconds

    def renew(self) -> None:
        """Start the next second."""
        self._saved = max(0.0, min(SAVED, self._saved + SUSTAINED - self._spent))
        self._spent = 0.0
