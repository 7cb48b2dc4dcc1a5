"""What NCCL's RAS noticed while a job stood still: processes that it gave up on, or that stopped answering it.

Names of events are those of ``src/ras`` of NVIDIA/nccl (2.29 to 2.32). ``PEER_DEAD`` is told to the whole job, a
minute after a process stopped responding; the rest a process notices of its neighbours in RAS's ring alone, five
seconds after.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from collectors.samples.collectives import RasEvent, RasRank
from hangtop.diagnosis.job import Job

DEAD = frozenset({"PEER_DEAD", "PEER_TIMEOUT_DEAD"})
UNRESPONSIVE = frozenset({"PEER_UNRESPONSIVE", "PEER_SEND_STUCK", "PEER_KEEPALIVE_TIMEOUT"})
BACK = frozenset({"PEER_RECOVERED", "PEER_CONNECTED", "PEER_NEW"})
"""It answers again, or another process is there."""


@dataclass(frozen=True, slots=True)
class LostPeer:
    """A process that RAS lost and has not found again."""

    event: RasEvent
    """What was said of it last."""
    dead: bool
    """RAS gave it up; else it does not answer."""

    @property
    def member(self) -> RasRank:
        """The same as a report would name it."""
        event = self.event
        return RasRank(-1, event.host, event.pid, None, "dead" if self.dead else "unresponsive", 0, {})


def of_the_wait(job: Job) -> tuple[RasEvent, ...]:
    """Events since the job stands still; none where it moves."""
    if job.stood_still is None or job.motion.moving:
        return ()
    since = job.now - job.stood_still
    return tuple(event for event in job.ras_events if event.at >= since)


def lost(events: Iterable[RasEvent]) -> tuple[LostPeer, ...]:
    """Processes that were last heard of as dead or not responding, in the order in which that was said."""
    last: dict[tuple[str, int], LostPeer] = {}
    for event in events:
        key = (event.host, event.pid)
        before = last.get(key)
        if event.event in DEAD:
            last[key] = LostPeer(event, dead=True)
        elif event.event in UNRESPONSIVE and not (before is not None and before.dead):
            last[key] = LostPeer(event, dead=False)
        elif event.event in BACK:
            last.pop(key, None)
    return tuple(last.values())


def words(event: RasEvent) -> str:
    """One event as evidence: ``PEER_DEAD process 4711 on 10.0.0.4 (GPU 1)``."""
    who = f"process {event.pid} on {event.host}" if event.pid else event.host
    gpus = f" (GPU {', '.join(map(str, event.gpus))})" if event.gpus else ""
    details = f": {event.details}" if event.details else ""
    return f"{event.event} {who}{gpus}{details}".replace("  ", " ")
