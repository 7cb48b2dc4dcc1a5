"""Listening to NCCL's RAS while a job stands still: what it notices becomes changes, evidence and findings.

One rank is listened to for the whole job, one whose RAS has answered about this job (``job_sources.py``), and only as
long as the wait lasts: the program on the node ends with it. RAS tells a client nothing that happened before it came.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict
from functools import lru_cache

from collectors.fleet.transport import TransportError
from collectors.samples.collectives import RasEvent
from hangtop.diagnosis.collectives.ras import BACK, DEAD, UNRESPONSIVE
from hangtop.diagnosis.phrasing import count, listed
from hangtop.session.feed import AskingSession
from hangtop.session.state.changes import Change, ChangeKind
from hangtop.session.state.job_state import RankState

MONITORS = (2, 29)
"""The first NCCL whose RAS can be listened to."""
GATHER = 1.0
"""Seconds in which events of one kind make one change: a node that goes takes eight processes with it."""
AGAIN = 60.0
"""Seconds until RAS is listened to again after it closed, or could not be reached."""

_TOLD: dict[str, tuple[ChangeKind, str]] = {
    **dict.fromkeys(DEAD, ("lost", "NCCL RAS gave up")),
    **dict.fromkeys(UNRESPONSIVE, ("lost", "NCCL RAS gets no answer from")),
    "PEER_RECOVERED": ("back", "NCCL RAS hears again from"),
    "PEER_NEW": ("other", "NCCL RAS knows new:"),
}
"""Events that are changes; the others (connections that are made, tried and closed) are evidence alone."""
assert BACK - set(_TOLD) == {"PEER_CONNECTED"}


class RasWatch:
    """Follows RAS for one session; :meth:`follow` is told about once a second whether the job stands still."""

    def __init__(self, session: AskingSession) -> None:
        self._session = session
        self._task: asyncio.Task[None] | None = None
        self._again_at = 0.0
        self._new: dict[str, dict[str, None]] = defaultdict(dict)
        self._told_at = 0.0
        self._left_out = 0
        self.why = ""
        """Why nobody is listened to; empty while somebody is, or nothing was tried."""

    @property
    def listening(self) -> bool:
        """True while RAS is listened to."""
        return self._task is not None and not self._task.done()

    def follow(self, asked: RankState | None, *, standing: bool) -> None:
        """Begin to listen, or end it; what came meanwhile is told.

        ``asked``: the rank whose RAS has answered about this job; None where there is none, or none that does.
        """
        if not standing:
            self.close()
            self.why, self._again_at = "", 0.0
        elif not self.listening and self._session.now() >= self._again_at:
            self._begin(asked)
        if self._new and time.monotonic() - self._told_at >= GATHER:
            self._tell()

    def close(self) -> None:
        """End it, here and on the node."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._tell()

    def _begin(self, asked: RankState | None) -> None:
        if asked is None:
            return
        version = asked.process.versions.get("nccl", "")
        if release(version) < MONITORS:
            self.why = f"NCCL {version} cannot be listened to: RAS's MONITOR came with 2.29"
            return
        self._again_at = self._session.now() + AGAIN
        self._task = asyncio.create_task(self._listen(asked), name="hangtop RAS monitor")

    async def _listen(self, asked: RankState) -> None:
        from collectors.probes import ras

        try:
            where = ras.address(asked.process.env.get("NCCL_RAS_ADDR", ""))
            node, python = self._session.transport(asked.node), self._session.python(asked.node)
            self.why = await ras.listen(node, python, asked.process.pid, where, self._take, self._skip)
        except TransportError as error:
            self.why = str(error)
        self._say("hangtop", f"NCCL RAS is no longer listened to: {self.why}")

    def _take(self, event: RasEvent) -> None:
        event = event._replace(at=self._session.now())
        self._session.take_report(event)
        if event.event in _TOLD:
            who = f"process {event.pid} on {event.host}" if event.pid else event.host
            self._new[event.event][self._rank_text(event) or who] = None

    def _skip(self, number: int) -> None:
        self._left_out += number

    def _rank_text(self, event: RasEvent) -> str:
        """The rank of this process, where only one of the job has its number."""
        found = [rank for rank in self._session.living() if event.pid == (rank.process.own_pid or rank.process.pid)]
        return f"rank {found[0].process.rank}" if len(found) == 1 and found[0].process.rank >= 0 else ""

    def _tell(self) -> None:
        self._told_at = time.monotonic()
        for event, names in self._new.items():
            kind, words = _TOLD[event]
            self._say(kind, f"{words} {listed(list(names))}")
        self._new.clear()
        if self._left_out:
            self._say("hangtop", f"NCCL RAS said more than is kept: {count(self._left_out, 'event')} left out")
            self._left_out = 0

    def _say(self, kind: ChangeKind, text: str) -> None:
        self._session.state.changes.append(Change(self._session.now(), "", text, kind))


@lru_cache(64)
def release(version: str) -> tuple[int, ...]:
    """The first two numbers of a version, to compare by; empty for none."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
