"""Whether the job moves, from signals that cost nothing: no stack is read and nothing is asked of the job.

Steps that its logs tell are the best of them. Beyond those a rank shows progress when it computes, launches
collectives, reads or writes, when its helpers compute, when its GPU draws the power of work, when its node exchanges
what such a job exchanges, or when its main thread is found elsewhere (:mod:`tracks`, :mod:`traffic`).

In a hang the culprit may be busy, but those who wait are still; in a healthy job every rank moves once a step. So the
job stands still as long as at least half of its ranks have been still. What a healthy job does in its pauses
(evaluation, checkpoint, compilation) is learned (:mod:`pauses`). A hang that is older than the session is known by the
last step of a log that told steps in a rhythm.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Collection, Container, Iterable, Iterator, Mapping

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.evidence.gpu_load import given_gpu
from hangtop.diagnosis.job import JobMotion
from hangtop.session.motion.moving import Tally, motion_of
from hangtop.session.motion.pauses import ANYWHERE, Pauses
from hangtop.session.motion.steps import JobSteps
from hangtop.session.motion.tracks import LOOKED_OFTEN, MotionTrack, track
from hangtop.session.motion.traffic import Traffic
from hangtop.session.state.job_state import JobState, NodeState, RankState

Key = tuple[str, int]
"""Node and pid."""

NO_PAUSE = frozenset({"nonblocking", "none"})
"""Ways to read stacks that do not stop the process."""
PAUSE = 2.0
"""Seconds: shorter pauses are the rhythm of looking, not of the job."""
LAG = 3.0
"""Seconds by which a node's last word may be old, where it speaks often; what it has not said then is not known."""
LONGEST_RHYTHM = 60.0
"""Seconds: a longer pause is none that comes with every step."""
A_STEPS_PAUSE = 10.0
"""Seconds of a step in which nothing may move, at the most: most of a longer one is work that is seen, …"""
A_PROVEN_PACE = 30.0
"""… but where the log shows that one step after another takes as long, …"""
PACE_SLACK = 1.25
"""… and the present one takes no more than so many times as long."""
LONG_PAUSE, LONG_PAUSES = 1.0, 48
"""Seconds of a pause in which several looks may fall, as a watch begins with them, and how many are remembered."""
OVERDUE = 3.0
"""So many times the rhythm in which a log told steps before the last one is the last sign of life."""
EARLY = 0.5
"""Part of the time between two looks before which a node that says something did not look at its ranks again."""
SLICE = 48
"""Nodes that are looked at in one go: some 2 ms."""


SPARES_AFTER = 10.0
"""Seconds of watching from which on a rank that never moved, beside others that do, is a spare."""


class StallDurations:
    """How long the ranks in view have been still: taken up as each is looked at, so that the whole is told at once."""

    __slots__ = ("_active", "_every", "_newest", "_quiet")

    def __init__(self) -> None:
        self._every = array("d")
        self._active = array("d")
        """Seconds of stillness of those that moved more than once."""
        self._quiet = 0
        """How many never moved, and were looked at often enough to say so."""
        self._newest = float("-inf")
        """When the last of them came into view."""

    def __len__(self) -> int:
        return len(self._every)

    def add(self, still: float, known: MotionTrack) -> None:
        """Take a rank that has been still for so many seconds."""
        self._every.append(still)
        if known.moves > 1:
            self._active.append(still)
        elif not known.moves and known.looks >= LOOKED_OFTEN:
            self._quiet += 1
        self._newest = max(self._newest, known.first_at)

    def half(self, now: float) -> tuple[float, bool] | None:
        """Seconds for which at least half of the ranks have been still, and whether as many never moved; None without.

        Ranks that never moved while all others do are left out: a hot spare sleeps, and nobody waits for it. They must
        be few and the others several, or those who never moved may be waiting for the one that does.
        """
        spares, ranks = len(self._every) - len(self._active), len(self._every)
        if not ranks:
            return None
        left_out = now - self._newest >= SPARES_AFTER and 0 < 2 * spares < ranks and len(self._active) > 1
        counted, quiet = (self._active, 0) if left_out else (self._every, self._quiet)
        half = (len(counted) + 1) // 2
        return max(0.0, sorted(counted)[-half]), quiet >= half


class Progress:
    """Follows the cheap signals of one job; call :meth:`look` about once a second."""

    def __init__(self, state: JobState) -> None:
        self._state = state
        self._tracks: dict[str, dict[int, MotionTrack]] = {}
        self._traffic: dict[str, Traffic] = {}
        self._still: float | None = None
        self._pauses = Pauses()
        self._steps = JobSteps(0.0)
        self._motion = JobMotion()
        self._now = 0.0
        self._between = 1.0
        """Seconds between two looks of a node."""
        self._rebase: set[Key] = set()
        self._ended: deque[tuple[float, float]] = deque(maxlen=LONG_PAUSES)
        self.place = ANYWHERE
        """Where the job stands, in a word that is the same whenever it stands there; for pauses to be known by."""
        self.alarmed = False
        """Set while a hang is reported: such a pause is usual only when the job comes back from it again and again."""

    @property
    def stood_still(self) -> float | None:
        """Seconds for which at least half of the ranks in view have been still; None without a rank in view."""
        return self._still

    @property
    def usual_pause(self) -> float | None:
        """The longest pause that the job took at its present place and came back from; None while it has taken none.

        Who has just come knows from the times in its log how long it takes for a step: that may be a pause as well.
        """
        known = (self._pauses.usual(self.place, self._now), self._pause_of_a_step())
        return max((pause for pause in known if pause is not None), default=None)

    def _pause_of_a_step(self) -> float | None:
        steps = self._steps
        if steps.longest is None:
            return None
        known = min(steps.longest, A_STEPS_PAUSE)
        since = self._now - (steps.told_at or float("-inf"))
        if steps.even is None or since > PACE_SLACK * steps.even + LAG:
            return known
        return max(known, min(steps.even, A_PROVEN_PACE))

    @property
    def motion(self) -> JobMotion:
        """What moved lately, and what proves it."""
        return self._motion

    @property
    def tracks(self) -> Mapping[str, Mapping[int, MotionTrack]]:
        """What is known of each rank in view, by node and pid; others only read it."""
        return self._tracks

    @property
    def between(self) -> float:
        """Seconds between two looks of a node."""
        return self._between

    def long_pauses(self, now: float) -> tuple[tuple[float, float], ...]:
        """When the last pauses of :data:`LONG_PAUSE` seconds and more began and ended, the present one last."""
        still = self._still or 0.0
        return (*self._ended, *(((now - still, now),) if still >= LONG_PAUSE else ()))

    def steps_per_s(self, now: float) -> float | None:
        """Training steps a second, as the logs tell; 0 when the next one is overdue, None where they tell none."""
        return self._steps.per_second(now)

    def look(self, now: float, unrelated: Collection[Key] = ()) -> None:
        """Compare every living rank with the last look; ``unrelated`` are processes of other runs."""
        for _ in self.looking(now, unrelated):
            pass

    def looking(self, now: float, unrelated: Collection[Key] = ()) -> Iterator[None]:
        """The same in slices of :data:`SLICE` nodes, for those who have other things to do meanwhile."""
        seen = StallDurations()
        tally, steps = Tally(now, self._between), JobSteps(now)
        for number, node in enumerate(tuple(self._state.nodes.values()), 1):
            if node.ranks:
                self._look_at(node, unrelated, seen, tally)
            else:
                self._tracks.pop(node.name, None)
            if node.steps:
                steps.take(node, unrelated)
            if number % SLICE == 0:
                yield
        for known in (self._tracks, self._traffic):
            for name in known.keys() - self._state.nodes.keys():
                del known[name]
        self._steps, self._between = steps, tally.span
        self._take(now, seen)
        self._motion = motion_of(tally, steps, self._still, self._rhythm())

    def _look_at(self, node: NodeState, unrelated: Collection[Key], seen: StallDurations, tally: Tally) -> None:
        at, before = node.seen_at, len(seen)
        source = node.sources.get("ranks")
        if node.link not in {"live", "limited"} or at is None or (source is not None and source.state != "ok"):
            # Not seen is not still: the last word is kept until the node answers again.
            _keep(self._tracks.get(node.name, {}), node.ranks)
            return
        traffic = self._traffic.get(node.name)
        if traffic is None:
            traffic = self._traffic[node.name] = Traffic()
        exchanged = traffic.look(node, at)
        lag = max(LAG, 1.5 * self._between)
        on = {process.pid: gpu for gpu in node.gpus.values() for process in gpu.processes}
        tracks = self._tracks.setdefault(node.name, {})
        alive: list[int] = []
        for pid, rank in node.ranks.items():
            if rank.gone_at is not None or rank.looks.newest is None or (unrelated and (node.name, pid) in unrelated):
                continue
            alive.append(pid)
            gpu = on.get(pid) if node.gpu_processes else node.gpus.get(_given(rank))
            known = tracks.get(pid)
            if known is None:
                known = tracks[pid] = track(rank, at, gpu)
            elif at > known.seen_at and not _out_of_turn(known, rank, (at - known.seen_at) / self._between):
                tally.anew(at - known.seen_at)
                own = (node.name, pid) in self._rebase or at <= node.answering.get(pid, 0.0)
                if own:
                    self._rebase.discard((node.name, pid))
                known.follow(at, rank, gpu, exchanged=exchanged, own=own)
            seen.add(min(tally.now, at + lag) - known.moved_at, known)
            tally.rank(known)
        if len(tracks) > len(alive):
            _keep(tracks, set(alive))
        tally.node(traffic, len(seen) - before)

    def saw(self, dumps: Iterable[tuple[str, StackDump]]) -> None:
        """Take a look at stacks: a main thread that is elsewhere than before has moved.

        A look that stopped the process for a moment must not count as movement of its own.
        """
        for node, dump in dumps:
            known = self._tracks.get(node, {}).get(dump.pid)
            if known is None:
                continue
            if dump.method not in NO_PAUSE:
                self._rebase.add((node, dump.pid))
            known.saw(dump)

    def _take(self, now: float, seen: StallDurations) -> None:
        """Take how long the ranks were still; what they came back from was a pause until then, whenever known."""
        before, then, self._now = self._still, self._now, now
        self._still = self._stillness(now, seen)
        if before is None or self._still is None or self._still >= before - 0.1:
            return
        began, ended = then - before, now - self._still
        lasted = min(before, ended - began)
        if lasted >= LONG_PAUSE:
            self._ended.append((began, ended))
        if lasted < PAUSE:
            return
        if self.alarmed:
            self._pauses.came_back(self.place, lasted, now)
        else:
            self._pauses.learn(self.place, lasted, now)

    def _stillness(self, now: float, seen: StallDurations) -> float | None:
        told = seen.half(now)
        if told is None:
            return None
        still, quiet = told
        steps = self._steps
        if steps.grown_at is not None:
            # One rank logs what all have done together.
            return max(0.0, min(still, now - steps.grown_at))
        if quiet and steps.every is not None and steps.last_at is not None:
            since = now - steps.last_at
            if since > OVERDUE * steps.every + LAG:
                return max(still, since)
        return still

    def _rhythm(self) -> float:
        """Seconds for which this job may show nothing between two steps."""
        return max(
            PAUSE, 2.0 * self._between, 1.5 * (self._steps.every or 0.0), min(LONGEST_RHYTHM, self.usual_pause or 0.0)
        )


def _keep(tracks: dict[int, MotionTrack], pids: Container[int]) -> None:
    """Forget the ranks of a node that have gone."""
    for pid in [pid for pid in tracks if pid not in pids]:
        del tracks[pid]


def _out_of_turn(known: MotionTrack, rank: RankState, turns: float) -> bool:
    """What does not move is not sent; but what a node says between two looks, so many turns later, tells of no rank.

    Taken for a look it was one in which the rank slept, and the next one showed its CPU time in a part of the time.
    """
    return turns < EARLY and rank.looks.newest is known.pulse


def _given(rank: RankState) -> int:
    """Index of the GPU that a rank's settings give it, where no list of processes tells; -1 for none."""
    index = given_gpu(rank.process)
    return -1 if index is None else index
