"""What the rules are given: a job, what each of its ranks does, who waits for whom, and how long a wait must last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.stacks.doing import Activity
from hangtop.diagnosis.stacks.generic import SERVER
from hangtop.diagnosis.stacks.torn import TRACED
from hangtop.diagnosis.tables.thresholds import (
    LATE_LOOKS,
    LONG_WORK_S,
    OWN_WORK_S,
    ROUNDS_S,
    SLEPT_SEEN_SHARE,
    TRICKLE_BYTES_PER_S,
    WORK_BYTES_PER_S,
)
from hangtop.diagnosis.waits.answers import answer_due
from hangtop.diagnosis.waits.children import child_due, children_work, helpers_unknown, polls_for_children
from hangtop.diagnosis.waits.cpu_share import cpu_share
from hangtop.diagnosis.waits.file_calls import ends_calls, on_a_disk
from hangtop.diagnosis.waits.graph import WaitGraph, find_waits, loops
from hangtop.diagnosis.waits.on_its_way import on_its_way
from hangtop.diagnosis.waits.outside import outside_due
from hangtop.diagnosis.waits.own_threads import others_compute
from hangtop.diagnosis.waits.patience import seen_after
from hangtop.diagnosis.waits.process_motion import HELPERS_SPAN
from hangtop.diagnosis.waits.rank_status import RankStatus, State, gets_through, in_state
from hangtop.diagnosis.waits.rounds import gets_on, goes_round
from hangtop.diagnosis.waits.seen_before import told_by_the_past
from hangtop.diagnosis.waits.sleeping import in_one_sleep, naps, sleep_due
from hangtop.diagnosis.waits.statuses import statuses_of
from hangtop.diagnosis.waits.staying import in_one_call, stays

LEGITIMATE = frozenset({"forward", "backward", "compile", "evaluation", "checkpoint", "data", "init"})
"""Work that may keep the others waiting for long in a healthy job, as long as it is seen to move."""

PIPED_BYTES_PER_S = 1024.0
"""Ours: the log lines of its other threads stay below."""
BUSY_FOR_LONG = frozenset({"compile", "evaluation", "checkpoint"})
"""Of these, work that takes minutes in one call, in which nothing is seen to move but the CPU."""


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

    def due(self, culprit: RankStatus) -> float:
        """Seconds that the others may wait for this rank before it may be called stuck.

        What may be at work on something that takes long by nature gets a minute at the least, however short the watch,
        and so does code of its own that computes by libraries, changes its memory, or goes through many files; what
        only computes gets a long step, and less where it goes round. What is seen to make its way is never called
        stuck. Who was called stuck and has stayed where it was gets no more time for what other threads of it do.
        Who is kept from the CPU that it wants is given more time by as much.
        """
        waiters = self.graph.waiters if self.graph is not None else ()
        return self._due(culprit) / (cpu_share(culprit, waiters) if self.job.live else 1.0)

    def _due(self, culprit: RankStatus) -> float:
        if self.job.live and goes_round(culprit):
            return max(self.alarm_after, ROUNDS_S)
        if visibly_works(culprit) or (self.job.live and _is_not_known(culprit)):
            return inf
        if self.job.live and stays(culprit) and culprit.rank in self.job.told_stuck:
            return self.alarm_after
        once = self.job.live and met_once(culprit)
        if may_work(culprit) or (once and culprit.activity is not None and _takes_long(culprit.activity)):
            return max(self.alarm_after, LONG_WORK_S)
        waited = self.graph.held if self.graph is not None else 0.0
        computes_on = computes(culprit) and gets_on(culprit, waited)
        by_others = others_compute(culprit) or polls_for_children(culprit)
        if self.job.live and (computes_on or by_others or ends_calls(culprit) or on_a_disk(culprit)):
            return max(self.alarm_after, LONG_WORK_S)
        if moves_on(culprit) or once or (self.job.live and (computes(culprit) or naps(culprit))):
            return max(self.alarm_after, LONG_WORK_S if culprit.motion.starving else OWN_WORK_S)
        if self.job.live and in_one_sleep(culprit):
            return max(self.alarm_after, sleep_due(culprit, waited, self.job.now))
        if not self.job.live:
            return self.alarm_after
        return max(
            self.alarm_after, answer_due(culprit, waited), child_due(culprit, waited), outside_due(culprit, waited)
        )


def _thread(status: RankStatus) -> str:
    return "main" if status.activity is None else status.activity.thread


def _is_not_known(status: RankStatus) -> bool:
    """What it waits for is not known yet; of one that every look met while somebody traced it nothing is but that."""
    doing = status.activity
    traced = doing is not None and doing.state == TRACED and status.state == "working"
    return traced or helpers_unknown(status)


def visibly_works(status: RankStatus) -> bool:
    """True for a rank that is seen to make its way: its GPU computes, it moves data, its frames or helpers move."""
    doing = status.activity
    if status.state != "working":
        return False
    if status.load == "computing" or (status.motion.moves_data and not in_one_call(status)) or _carries(status):
        return True
    if doing is not None and (gets_through(doing, status.moves, status.load) or doing.label == SERVER):
        return True
    if children_work(status):
        return True  # wherever it waits for them
    napping = naps(status)
    if doing is None or (doing.kind == "sleep" and not napping) or loops(status):
        return False
    # code of the user's own that moves within one call may be a loop without end: only known work is seen to be work
    inside = {doing.kind, *doing.context}
    if inside & BUSY_FOR_LONG and status.busy:
        return True
    return status.motion.helped or (
        bool(inside & LEGITIMATE) and (napping or bool(doing.moving)) and not status.motion.blocked
    )


def _carries(status: RankStatus) -> bool:
    """True for a rank whose connections carry much, as a download's do, though it reads and writes no file.

    What a look saw counts until its process has not run for a while; that of a process for whose end it waits, always.
    Where a connection is the very thing that is waited for, little is much.
    """
    doing, motion = status.activity, status.motion
    if doing is None:
        return False
    least = TRICKLE_BYTES_PER_S if doing.waits == "helper" or doing.waiting_on.startswith("tcp ") else WORK_BYTES_PER_S
    piped = doing.waits == "storage" and doing.waiting_on.startswith("pipe")
    if piped and max(motion.read or 0.0, motion.written or 0.0) > PIPED_BYTES_PER_S:
        return True  # who is at its other end takes it, or brings it, slowly
    runs = motion.unrun < HELPERS_SPAN or bool(motion.cpu)
    return (doing.carried or 0.0) > least and (runs or doing.waits == "helper")


def moves_on(status: RankStatus) -> bool:
    """True for a rank that computes in code of its own and is met at other points of it: a long step, or a loop."""
    doing = status.activity
    if doing is None or status.state != "working" or doing.kind == "sleep" or loops(status):
        return False
    return bool(doing.moving) and not status.motion.blocked


def computes(status: RankStatus) -> bool:
    """True for a rank that computes in code of its own, however little of a core an overloaded node leaves it.

    Long work and a loop without end look alike.
    """
    doing = status.activity
    if doing is None or status.state != "working" or status.blocked:
        return False
    # who is to be given Python's lock sleeps for that now and then; of other threads the kernel tells but their CPU
    beside = doing.thread == "python"
    open_ended = status.motion.beside(doing.thread) if beside else status.motion.wants_cpu
    return doing.kind == "code" and (doing.waits == "nothing" or (doing.waits == "unknown" and open_ended))


def met_once(status: RankStatus) -> bool:
    """True for a rank that uses some CPU and was looked at once: where it was, not that it stays there.

    One that computes and sleeps by turns, on a node with more to do than it can, is met in its sleep.
    """
    return status.state == "working" and len(status.readings) < LATE_LOOKS and not status.blocked and status.read


def may_work(status: RankStatus) -> bool:
    """True for a rank that computes or moves in something that takes long in a healthy job, too."""
    doing = status.activity
    if doing is None or status.state != "working":
        return False
    if in_one_call(status):
        return False
    if status.native and status.busy and doing.waits == "nothing" and doing.decided_by is not None:
        return doing.decided_by.native  # in a library that computes, where a loop of Python's is not met
    busy = status.busy or doing.cpu == "mixed" or bool(doing.moving)
    return busy and (_takes_long(doing) or (bool(doing.moving) and _mostly_takes_long(status.readings)))


def _takes_long(doing: Activity) -> bool:
    return doing.kind in LEGITIMATE or bool(doing.context & LEGITIMATE)


def _mostly_takes_long(readings: Sequence[Activity]) -> bool:
    """At least half of the looks met it in such work: one that meets a frame being made may miss the innermost ones."""
    return 2 * sum(_takes_long(reading) for reading in readings) >= len(readings) > 0


def status_of_job(job: Job) -> JobStatus:
    """Put the picture's parts in order, tell what each rank does and who waits for whom.

    Where all wait, and what they wait for is on its way from node to node, nobody keeps anybody waiting.
    """
    ordered = in_order(job)
    statuses = statuses_of(ordered)
    graph = find_waits(statuses)
    if graph is not None and graph.pattern != "held_up" and on_its_way(ordered, statuses.values()):
        graph = None
    graph = None if graph is None else told_by_the_past(ordered, graph)
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
