"""What the rules are given: a job, what each of its ranks does, who waits for whom, and how long a wait must last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.sockets import FRESH_S, creeps
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.tables.thresholds import (
    SLEPT_SEEN_SHARE,
    SLOW_PATH_BYTES_PER_S,
    STOOD_STILL_S,
    TRICKLE_BYTES_PER_S,
)
from hangtop.diagnosis.waits.graph import WaitGraph, find_waits
from hangtop.diagnosis.waits.patience import seen_after
from hangtop.diagnosis.waits.rank_status import RankStatus, State, in_state
from hangtop.diagnosis.waits.statuses import statuses_of
from hangtop.diagnosis.waits.wake_set import WakeProgress, WakeSet, wake_set_of

PATIENCE_S, OF_USUAL_PAUSE = 60.0, 3.0
"""Seconds that a wait for something outside the job may take at the least, and so many times the longest ordinary
pause."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """One job at one moment: the picture, its ranks and their waits."""

    job: Job
    statuses: Mapping[int, RankStatus]
    """By rank, including missing ones."""
    graph: WaitGraph | None

    def of(self, *states: State) -> tuple[RankStatus, ...]:
        """Ranks in any of these states, in order."""
        return in_state(self.statuses, *states)

    @property
    def read(self) -> tuple[RankStatus, ...]:
        """Ranks whose stacks could be read."""
        return tuple(status for status in self.statuses.values() if status.activity and status.readings)

    @property
    def present(self) -> tuple[RankStatus, ...]:
        """Ranks that have a process."""
        return tuple(status for status in self.statuses.values() if status.present)

    @property
    def hung(self) -> bool:
        """Ranks have waited without a break for longer than this job's pauses and the user's patience allow."""
        return self.graph is not None and self.graph.held >= self.alarm_after

    @property
    def alarm_after(self) -> float:
        """The job's own, as looks see it (:func:`~hangtop.diagnosis.waits.patience.seen_after`).

        Nothing for saved dumps: who took them had waited.
        """
        if not self.job.live:
            return 0.0
        return seen_after(self.job.alarm_after)

    def works(self, status: RankStatus) -> bool:
        """Whether this rank waits for no other and its wake set makes progress."""
        return status.state == "working" and self.wake_set(status).progress is WakeProgress.WORKS

    def kept_waiting(self, culprits: Sequence[RankStatus]) -> float:
        """Seconds for which these ranks have kept the others waiting, as far as one knows.

        As long as that was seen. But who comes late to a hang sees a wait that spins from then on only; where every one
        of these ranks has slept without a break for the whole patience, seeing a part of it is enough.
        """
        assert self.graph is not None, "nobody is waited for where nobody waits"
        seen = self.graph.held
        asleep = min(0.0 if one.motion.beside(_thread(one)) else one.motion.asleep for one in culprits)
        due = self.job.alarm_after
        return max(seen, asleep) if asleep >= due and seen >= SLEPT_SEEN_SHARE * due else seen

    def wake_set(self, status: RankStatus) -> WakeSet:
        """What may let this rank go on, and whether any of that makes progress, beside the ranks that wait."""
        still = self.job.stood_still
        stands = self.job.live and still is not None and still >= STOOD_STILL_S
        since = self.job.now - (still or 0.0) if stands else None
        return wake_set_of(status, self.graph.waiters if self.graph is not None else (), since)

    def measured(self, status: RankStatus) -> bool:
        """Whether it is known if the wake set of a rank makes progress."""
        return self.wake_set(status).progress is not WakeProgress.UNKNOWN

    def due(self, culprit: RankStatus) -> float:
        """Seconds that the others may wait for this rank before that is a fault.

        Never while its wake set makes progress or was not measured yet. Without progress: the job's own due where the
        rank is blocked on something inside the job, and the patience for what comes from outside. Nothing of that holds
        for saved dumps, of which nobody knows how the rank went on: their owner had waited.
        """
        if not self.job.live:
            return self.alarm_after
        match self.wake_set(culprit).progress:
            case WakeProgress.INSIDE:
                return self.alarm_after
            case WakeProgress.OUTSIDE:
                return max(self.alarm_after, self.outside_patience)
            case _:
                return inf

    @property
    def outside_patience(self) -> float:
        """Seconds that something outside the job may take: three times the longest ordinary pause, or a minute."""
        return max(PATIENCE_S, OF_USUAL_PAUSE * (self.job.usual_pause or 0.0))


def _thread(status: RankStatus) -> str:
    return "main" if status.activity is None else status.activity.thread


def status_of_job(job: Job) -> JobStatus:
    """Put the picture's parts in order, tell what each rank does and who waits for whom.

    Where all wait, and what they wait for is on its way from node to node, nobody keeps anybody waiting.
    """
    ordered = in_order(job)
    statuses = statuses_of(ordered)
    graph = find_waits(statuses)
    if graph is not None and graph.pattern != "held_up" and on_its_way(ordered, statuses.values()):
        graph = None
    return JobStatus(ordered, statuses, graph)


def in_order(job: Job) -> Job:
    """Return the same picture with its parts in one certain order, whatever order they came in.

    Rules may then speak of "the first": of events in time, those without one after the others, as in their files.
    Dumps stay as they came: what tells the status of a rank sorts those of each.
    """
    nodes = job.event_nodes + ("",) * (len(job.events) - len(job.event_nodes))
    events = _once(sorted(zip(nodes, job.events, strict=False), key=lambda pair: (*_time(pair[1]), pair[0])))
    return replace(
        job,
        ranks=tuple(sorted(job.ranks, key=lambda rank: (rank.rank, rank.process.started, rank.node, rank.process.pid))),
        events=tuple(event for _, event in events),
        event_nodes=tuple(node for node, _ in events),
        recorders=tuple(sorted(job.recorders, key=lambda dump: (dump.rank, dump.at or 0.0, dump.source))),
        ras=tuple(sorted(job.ras, key=lambda look: (look.at, look.value.node))),
        others=tuple(sorted(job.others, key=lambda rank: (rank.rank, rank.node, rank.process.pid))),
        bystanders=tuple(sorted(job.bystanders, key=lambda rank: (rank.node, rank.process.pid))),
    )


def _once(events: Sequence[tuple[str, LogEvent]]) -> list[tuple[str, LogEvent]]:
    """Keep one of several equal events: a log on shared storage may be read by several nodes."""
    kept: dict[tuple[object, ...], tuple[str, LogEvent]] = {}
    for node, event in events:
        from_file = event.source.startswith("/")
        key = (event.kind, event.source, event.line, event.text, event.rank, None if from_file else node)
        kept.setdefault(key if event.line else (*key, event.at, len(kept)), (node, event))
    return list(kept.values())


def _time(event: LogEvent) -> tuple[bool, float, str, int, str, str]:
    return event.at is None, event.at or 0.0, event.source, event.line, event.kind, event.text


def on_its_way(job: Job, statuses: Iterable[RankStatus]) -> bool:
    """Whether data go between ranks that all wait: by what one connection gets rid of, or by what most ranks carry."""
    return creeps(job) or _trickles(job, statuses)


def _trickles(job: Job, statuses: Iterable[RankStatus]) -> bool:
    """At least half of the ranks carried some data between their last two looks, both since the job stands still.

    Over a path that loses packets a collective goes on in bursts, and seldom has more to send when it is looked at.
    Of more than a little a node's traffic tells.
    """
    if not job.live:
        return False
    since = max(job.now - (job.stood_still or 0.0), 0.0)
    present = [one for one in statuses if one.present]
    carry = sum(_carries(one, since, job.now) for one in present)
    return carry > 1 and carry * 2 >= len(present)


def _carries(status: RankStatus, since: float, now: float) -> bool:
    doing = status.activity
    if doing is None or status.state not in ("waiting", "on_gpu") or now - doing.at > FRESH_S:
        return False
    if not TRICKLE_BYTES_PER_S <= (doing.carried or 0.0) < SLOW_PATH_BYTES_PER_S:
        return False
    looks = status.readings
    return len(looks) > 1 and looks[-2].at >= since
