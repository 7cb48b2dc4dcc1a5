"""What the rules over stacks are given: the scene, the jam in it, and how long a wait must be to count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.jams import Jam, find_jam, loops
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.scene import Scene, set_scene
from hangtop.diagnosis.standing import Standing
from hangtop.diagnosis.tables.thresholds import LONG_WORK_S, LOOKS_SLACK_S, LOOKS_SLACK_SHARE

LEGITIMATE = frozenset({"forward", "backward", "compile", "evaluation", "checkpoint", "data", "init"})
"""Work that may keep the others waiting for long in a healthy job, as long as it is seen to move."""


@dataclass(frozen=True, slots=True)
class Case:
    """One job, looked at once."""

    job: Job
    scene: Scene
    jam: Jam | None

    @property
    def hung(self) -> bool:
        """Ranks have waited without a break for longer than this job's pauses and the user's patience allow."""
        return self.jam is not None and self.jam.held >= self.alarm_after

    @property
    def alarm_after(self) -> float:
        """The job's own, less what the first and the last look cut off from the time that was watched.

        Nothing for saved dumps: who took them had waited.
        """
        if not self.job.live:
            return 0.0
        return self.job.alarm_after - min(LOOKS_SLACK_S, LOOKS_SLACK_SHARE * self.job.alarm_after)

    def due(self, culprit: Standing) -> float:
        """Seconds that the others may wait for this rank before it may be called stuck.

        What visibly works at something that takes long by nature gets a minute at the least, however short the watch.
        """
        usual = self.alarm_after
        return max(usual, LONG_WORK_S) if works(culprit) else usual


def works(standing: Standing) -> bool:
    """True for a rank that is seen to make its way through something that takes long in a healthy job, too."""
    doing = standing.activity
    if doing is None or standing.stance != "working":
        return False
    motion = standing.motion
    if motion.moves_data:
        return True
    busy = doing.cpu in ("busy", "mixed") or motion.busy or motion.helped
    if doing.kind in LEGITIMATE or doing.context & LEGITIMATE:
        return busy or bool(doing.moving)
    return bool(doing.moving) and doing.kind != "sleep" and not loops(standing)


def open_case(job: Job) -> Case:
    """Put the picture's parts in order, set the scene and look for a jam."""
    ordered = in_order(job)
    scene = set_scene(ordered)
    return Case(ordered, scene, find_jam(scene))


def in_order(job: Job) -> Job:
    """Return the same picture with its parts in one certain order, whatever order they came in.

    Rules may then speak of "the first": of events in time, those without one after the others, as in their files.
    Dumps stay as they came: the scene, through which rules see them, sorts those of each rank.
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
