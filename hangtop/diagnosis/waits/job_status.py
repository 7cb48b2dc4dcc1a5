"""What the rules are given: a job, what each of its ranks does, who waits for whom, and how long a wait must last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.collectives.progress import WaitEdge
from hangtop.diagnosis.collectives.sources import waits_of
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.tables.thresholds import LONG_WORK_S
from hangtop.diagnosis.waits.graph import WaitGraph, find_waits
from hangtop.diagnosis.waits.points import by_frames
from hangtop.diagnosis.waits.rank_status import RankStatus, State, in_state, seen_after
from hangtop.diagnosis.waits.statuses import statuses_of, to_ask_natively
from hangtop.diagnosis.waits.wake_set import WakeProgress, WakeSet, wake_set_of

PATIENCE_S, OF_USUAL_PAUSE = 60.0, 3.0
"""Seconds that a wait for something outside the job may take at the least, and so many times the longest ordinary
pause."""
YOUNG_WAIT_S = 1.8
"""Ours: two looks of a short watch that show the same; cheap signals come once a second: they must be still twice."""

TRAINING = frozenset({"collective", "p2p", "device", "backward", "forward", "checkpoint"})
"""Kinds of what a rank is met in once it has begun to train."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """One job at one moment: the picture, its ranks and their waits."""

    job: Job
    statuses: Mapping[int, RankStatus]
    """By rank, including missing ones."""
    graph: WaitGraph | None
    edges: tuple[WaitEdge, ...]
    """For which ranks some ranks wait, by recorders, logs and frames, as far as one of them is sure."""

    def of(self, *states: State) -> tuple[RankStatus, ...]:
        """Ranks in any of these states, in order."""
        return in_state(self.statuses, *states)

    @property
    def read(self) -> tuple[RankStatus, ...]:
        """Ranks whose stacks could be read."""
        return tuple(status for status in self.statuses.values() if status.activity is not None)

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
        """The job's own, as looks see it (:func:`~hangtop.diagnosis.waits.rank_status.seen_after`).

        Nothing for saved dumps: who took them had waited.
        """
        return seen_after(self.job.alarm_after) if self.job.live else 0.0

    @property
    def trained(self) -> bool:
        """Whether a step, a collective or work of a GPU that a rank holds was seen: no rank waits for a start any more.

        A job that imports moves, too. A step counts that was logged since the youngest process was started.
        """
        job, step_at = self.job, self.job.motion.last_step_at
        if job.motion.last_step is not None:
            return step_at is None or all(rank.process.started < step_at for rank in job.ranks)
        if job.progress or job.recorders or any(one.load in ("computing", "spinning") for one in self.present):
            return True
        looks = (look for one in self.read for look in (one.activity, *one.readings) if look is not None)
        return any(look.kind in TRAINING and "init" not in look.context for look in looks)

    def lasted(self, held: float) -> float:
        """Seconds that a stand of so many, as watched, has lasted: since the last step or motion, for the text."""
        since, still = self.job.motion.stands_since, self.job.stood_still or 0.0
        covered = since is not None and held >= seen_after(still)
        return max(held, self.job.now - since) if since is not None and covered else held

    def wake_set(self, status: RankStatus) -> WakeSet:
        """What may let this rank go on, and whether any of that makes progress, beside the ranks that wait."""
        return wake_set_of(status, self.graph.waiters if self.graph is not None else ())

    def measured(self, status: RankStatus) -> bool:
        """Whether it is known if the wake set of a rank makes progress."""
        return self.wake_set(status).progress is not WakeProgress.UNKNOWN

    def due(self, status: RankStatus) -> float:
        """Seconds that a rank may stay where it is before that is a fault; endless while its wake set makes progress.

        Nor is it one before that was measured. Without progress: the job's own alarm where the rank waits for others or
        is blocked on something inside the job, and the patience for what comes from outside. A kernel on a GPU of which
        no figures are known may be a long one, and a rank that nobody could look into may compute. Nothing of that
        holds for saved dumps, of which nobody knows how the rank went on: their owner had waited.
        """
        if not self.job.live:
            return self.alarm_after
        if status.state == "unseen":
            rests = status.load in ("spinning", "idle") or status.motion.blocked
            return inf if status.motion.moves_data else max(self.alarm_after, 0.0 if rests else LONG_WORK_S)
        if status.state == "on_gpu" and status.load == "unknown":
            return max(self.alarm_after, self.outside_patience)
        match self.wake_set(status).progress:
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


def status_of_job(job: Job) -> JobStatus:
    """Put the picture's parts in order, tell what each rank does and who waits for whom."""
    ordered = in_order(job)
    statuses = statuses_of(ordered)
    edges = tuple(edge for edge in (*ordered.once(waits_of), *by_frames(statuses.values())) if edge.certain)
    return JobStatus(ordered, statuses, find_waits(statuses, edges), edges)


def in_order(job: Job) -> Job:
    """Return the same picture with its ranks and events in one certain order, whatever order they came in.

    Rules may then speak of "the first": of events in time, those without one after the others, as in their files. Of
    several equal events one is kept: a log on shared storage may be read by several nodes.
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


def _time(told: tuple[str, LogEvent]) -> tuple[bool, float, str, int, str, str, str]:
    node, event = told
    return event.at is None, event.at or 0.0, event.source, event.line, event.kind, event.text, node


def native_wanted(job: Job) -> tuple[int, ...]:
    """Choose the ranks to dump with native frames: one of each point at which Python frames leave open what happens.

    Empty while the job moves, or where the Python frames tell all there is.
    """
    job_status = status_of_job(job)
    if not job_status.hung and ((job.stood_still or 0.0) < YOUNG_WAIT_S or job.motion.moving):
        return ()
    return to_ask_natively([one for one in job_status.statuses.values() if one.frozen is not False])
