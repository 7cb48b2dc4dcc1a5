"""Where a session's samples come from: a live fleet, a recording, or nowhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hangtop.session.session import Session


class Feed:
    """What delivers into a session; this one delivers nothing, and reaches no node."""

    connected = False
    """True when nodes can be asked for more than they send."""
    unreached = "this session has no connections"
    """Why no node can be reached."""

    def now(self) -> float:
        """The feed's present: wall clock, or a recording's time."""
        return time.time()

    async def start(self, session: Session) -> None:
        """Begin to deliver to a session, and give it the connections by which nodes can be asked."""

    async def close(self) -> None:
        """Stop, and leave nothing behind."""
