"""Input of the rules: a job, the status of each rank, which rank waits for which, and when a wait is a fault."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.collectives.progress import WaitEdge
from hangtop.diagnosis.collectives.sources import waits_of
from hangtop.diagnosis.job import Job, once
from hangtop.diagnosis.tables.thresholds import LONG_WORK_S
from hangtop.diagnosis.waits.graph import WaitGraph, find_waits
from hangtop.diagnosis.waits.points import by_frames
from hangtop.diagnosis.waits.rank_status import RankStatus, State, in_state, seen_after
from hangtop.diagnosis.waits.statuses import statuses_of, to_dump_natively
from hangtop.diagnosis.waits.wake_set import WakeProgress, WakeSet, wake_set_of

PATIENCE_S, OF_USUAL_PAUSE = 60.0, 3.0
"""Patience for a wait outside the job: at least these seconds, or this multiple of the longest ordinary pause."""
YOUNG_WAIT_S = 1.8
"""Ours: seconds. Cheap signs of motion come once a second, and two in a row must show none."""

TRAINING = frozenset({"collective", "p2p", "device", "backward", "forward", "checkpoint"})
"""Kinds of activity in which a rank is seen only after training has begun."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """One job at one moment, with the statuses and waits of its ranks."""

    job: Job
    statuses: Mapping[int, RankStatus]
    """By rank, including missing ones."""
    graph: WaitGraph
    edges: tuple[WaitEdge, ...]
    """Certain waits of one rank for others, from recorders, logs and frames."""

    def of(self, *states: State) -> tuple[RankStatus, ...]:
        """Ranks in any of these states, in order."""
        return in_state(self.statuses, *states)

    @property
    def read(self) -> tuple[RankStatus, ...]:
        """Ranks with stack dumps, readable or not."""
        return tuple(status for status in self.statuses.values() if status.activity is not None)

    @property
    def present(self) -> tuple[RankStatus, ...]:
        """Ranks that have a process."""
        return tuple(status for status in self.statuses.values() if status.present)

    @property
    def hung(self) -> bool:
        """Whether ranks have waited without a break for longer than this job's pauses and the user's patience allow."""
        return self.graph.pattern != "none" and self.graph.held >= self.alarm_after

    @property
    def alarm_after(self) -> float:
        """Seconds of waiting that are an alarm, less what samples miss (:func:`~.rank_status.seen_after`).

        Zero for saved dumps: the user waited before taking them.
        """
        return seen_after(self.job.alarm_after) if self.job.live else 0.0

    @property
    def trained(self) -> bool:
        """Whether the start is over: a step, a collective or work on a GPU of a rank was seen.

        Motion alone proves nothing, because imports move, too. A step counts if it is newer than every process.
        """
        job, step_at = self.job, self.job.motion.last_step_at
        if job.motion.last_step is not None:
            return step_at is None or all(rank.process.started < step_at for rank in job.ranks)
        if job.progress or job.recorders or any(status.load in ("computing", "spinning") for status in self.present):
            return True
        samples = (sample for status in self.read for sample in (status.activity, *status.readings))
        return any(sample and sample.kind in TRAINING and "init" not in sample.context for sample in samples)

    def lasted(self, held: float) -> float:
        """Seconds of a wait, for texts: since the last motion if samples cover the stand-still, else ``held``."""
        since, still = self.job.motion.stands_since, self.job.stood_still or 0.0
        covered = since is not None and held >= seen_after(still)
        return max(held, self.job.now - since) if since is not None and covered else held

    def wake_set(self, status: RankStatus) -> WakeSet:
        """The wake set of this rank, measured against the waiting ranks."""
        return wake_set_of(status, self.graph.waiters)

    def due(self, status: RankStatus) -> float:
        """Seconds that a rank may stay where it is before the stay is a fault; ``inf`` while its wake set progresses.

        Also ``inf`` until the wake set is measured. Without progress: :attr:`alarm_after` if the rank waits for others
        or is blocked inside the job, :attr:`outside_patience` if it is blocked outside. A GPU without figures may run a
        long kernel, and a rank without a readable stack may compute: both get more time. For saved dumps the limit is
        always :attr:`alarm_after`.
        """
        if not self.job.live:
            return self.alarm_after
        if status.state == "unseen":
            rests = status.load in ("spinning", "idle") or status.motion.blocked
            return inf if status.motion.moves_data else max(self.alarm_after, 0.0 if rests else LONG_WORK_S)
        if status.state == "on_gpu" and status.load == "unknown":
            return self.outside_patience
        progress = self.wake_set(status).progress
        if progress is WakeProgress.INSIDE:
            return self.alarm_after
        return self.outside_patience if progress is WakeProgress.OUTSIDE else inf

    @property
    def outside_patience(self) -> float:
        """Seconds of patience with something outside the job: three times the longest ordinary pause, at least 60."""
        return max(self.alarm_after, PATIENCE_S, OF_USUAL_PAUSE * (self.job.usual_pause or 0.0))


@once
def status_of_job(job: Job) -> JobStatus:
    """Sort the parts of a job, and work out the status of each rank and which rank waits for which."""
    ordered = in_order(job)
    statuses = statuses_of(ordered)
    edges = tuple(edge for edge in (*waits_of(ordered), *by_frames(statuses.values())) if edge.certain)
    return JobStatus(ordered, statuses, find_waits(statuses, edges), edges)


def in_order(job: Job) -> Job:
    """Return the same job with ranks and events in a fixed order, whatever order they came in.

    Events are in order of time; events without a time come last, in the order of their files. Equal events count once,
    because several nodes may read one log on shared storage.
    """
    nodes = job.event_nodes + ("",) * (len(job.events) - len(job.event_nodes))
    kept: dict[tuple[object, ...], tuple[str, LogEvent]] = {}
    for node, event in sorted(zip(nodes, job.events, strict=False), key=_time):
        from_file = event.source.startswith("/")
        key = (event.kind, event.source, event.line, event.text, event.rank, None if from_file else node)
        kept.setdefault(key if event.line else (*key, event.at, len(kept)), (node, event))
    return replace(
        job,
        ranks=tuple(sorted(job.ranks, key=lambda rank: (rank.rank, rank.process.started, rank.node))),
        events=tuple(event for _, event in kept.values()),
        event_nodes=tuple(node for node, _ in kept.values()),
    )


def _time(pair: tuple[str, LogEvent]) -> tuple[bool, float, str, int, str, str, str]:
    node, event = pair
    return event.at is None, event.at or 0.0, event.source, event.line, event.kind, event.text, node


def initialised(job: Job) -> bool:
    """Whether the communicators seem complete: the job trained, or all ranks were read; and none is read in init."""
    job_status = status_of_job(job)
    activities = [status.activity for status in job_status.read if status.activity is not None]
    starts = any("init" in (activity.kind, *activity.context) for activity in activities)
    return not starts and (job_status.trained or all(status.read for status in job_status.present))


def native_wanted(job: Job) -> tuple[int, ...]:
    """Choose the ranks to dump with native frames: one per point at which Python frames do not show what happens.

    Empty while the job moves, or if Python frames show enough.
    """
    job_status = status_of_job(job)
    if not job_status.hung and ((job.stood_still or 0.0) < YOUNG_WAIT_S or job.motion.moving):
        return ()
    return to_dump_natively([status for status in job_status.statuses.values() if status.frozen is not False])
