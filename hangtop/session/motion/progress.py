"""The progress clock of a job: since when nothing advances, by counters that cost nothing. No rank is asked anything.

Steps that its logs tell are the best of them (:mod:`steps`). Beyond those each rank has the time at which its own
counters advanced last (:mod:`rank_progress`): collectives, traffic of its node, its GPU, its process.

In a hang the culprit may be busy, but those who wait are still; in a healthy job every rank moves once a step. So the
job stands still as long as at least half of its ranks have been still. The longest pause that the job came back from
(evaluation, checkpoint, compilation) is its usual one, and fades: ten minutes of compiling at the start must not make
the watch deaf for days. A hang that is older than the session is known by the last step of a log that told steps in a
rhythm.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterator

from hangtop.diagnosis.evidence.gpus import given_gpu
from hangtop.diagnosis.job import JobMotion
from hangtop.diagnosis.node import Counted, Node
from hangtop.diagnosis.phrasing import count
from hangtop.session.motion.rank_progress import MotionSign, RankProgress
from hangtop.session.motion.steps import JobSteps
from hangtop.session.state import JobState

A_STEPS_PAUSE = 10.0
"""Seconds of a step in which nothing may move, at the most: most of a longer step is work that is seen."""
PAUSE, PAUSES = 1.0, 256
"""Seconds of a pause in which several looks may fall, as a watch begins with them, and how many are remembered."""
HALF_LIFE = 600.0
"""Seconds in which a pause that does not come again is half forgotten."""
LAG = 3.0
"""Seconds by which a node's last word may be old, where it speaks often; what it has not said then is not known."""
LATELY, LOOKS = 5.0, 2.5
"""Seconds for which a sign shows that a rank moves, or so many looks of its node, where they are rarer."""
LONGEST_LOOK = 30.0
"""Seconds between two looks, at the most: beyond them the session itself was away."""
EARLY = 0.5
"""Part of the time between two looks before which a node that says something did not look at its ranks again."""
LOOKED_OFTEN = 2
"""Looks at a still rank after which it is known to be still."""
LONGEST_RHYTHM = 60.0
"""Seconds: a longer pause is none that comes with every step."""
OVERDUE = 3.0
"""So many times the rhythm in which a log told steps before the last one is the last sign of life."""
SHARE, FLOOR = 0.1, 10e6
"""Part of the most that a port or interface was seen to exchange, and bytes per second each way, that are traffic of a
job."""
LOCAL = ("loopback",)
"""Kinds of interfaces that no other node is behind: over them all programs of a node talk to one another."""
SLICE = 12
"""Nodes that are looked at in one go: some 2 ms."""


class Progress:
    """Follows the counters of one job; call :meth:`look` about once a second."""

    def __init__(self, state: JobState) -> None:
        self._state = state
        self.tracks: dict[str, dict[int, RankProgress]] = {}
        """What is known of each rank in view, by node and pid; others only read it."""
        self.between = state.interval
        """Seconds between two looks of a node."""
        self.stood_still: float | None = None
        """Seconds for which at least half of the ranks in view have been still; None without a rank in view."""
        self.motion = JobMotion()
        """What moved lately, and what proves it."""
        self._most: dict[tuple[str, str], float] = defaultdict(float)
        """The most bytes per second each way that a node's port or interface was seen to exchange."""
        self._steps = JobSteps(0.0)
        self._now = 0.0
        self.pauses: deque[tuple[float, float]] = deque(maxlen=PAUSES)
        """When the last pauses of :data:`PAUSE` seconds and more began, and when the job came back from them."""

    @property
    def usual_pause(self) -> float | None:
        """The longest pause that the job took and came back from, as it fades; None while it has taken none.

        A step that lasts as long by the job's log may be a pause as well: a short watch has seen none yet.
        """
        lasted = [(end - begin, self._now - end) for begin, end in self.pauses]
        known = [seconds * 0.5 ** (past / HALF_LIFE) for seconds, past in lasted]
        known += [min(self._steps.longest, A_STEPS_PAUSE)] if self._steps.longest is not None else []
        return max(known, default=None)

    def steps_per_s(self, now: float) -> float | None:
        """Training steps a second, as the logs tell; 0 when the next one is overdue, None where they tell none."""
        return self._steps.per_second(now - self._state.untold)

    def look(self, now: float, unrelated: Collection[tuple[str, int]] = ()) -> None:
        """Compare every living rank with the last look; ``unrelated`` are nodes and pids of other runs' processes."""
        for _ in self.looking(now, unrelated):
            pass

    def looking(self, now: float, unrelated: Collection[tuple[str, int]] = ()) -> Iterator[None]:
        """The same in slices of :data:`SLICE` nodes, for those who have other things to do meanwhile."""
        interval, told = self._state.interval, now - self._state.untold
        self.between = min(LONGEST_LOOK, max(interval, now - self._now)) if self._now else interval
        ranks: list[RankProgress] = []
        steps, nodes = JobSteps(told), self._state.nodes
        for number, node in enumerate(tuple(nodes.values()), 1):
            if node.ranks:
                ranks += self._look_at(node, unrelated)
            if node.steps:
                steps.take(node, unrelated)
            if number % SLICE == 0:
                yield
        self.tracks = {name: of for name, of in self.tracks.items() if name in nodes and nodes[name].ranks}
        self._steps = steps
        # a node that falls silent is not still after its last word, but for a while
        lag = max(LAG, 1.5 * self.between)
        stills = sorted(min(max(told, rank.seen_at), rank.seen_at + lag) - rank.moved_at for rank in ranks)
        half = (len(ranks) + 1) // 2
        never = sum(not rank.advanced and rank.looks >= LOOKED_OFTEN for rank in ranks) >= half
        self._take(now, self._stillness(now, max(0.0, stills[-half]), never=never) if ranks else None)
        self.motion = self._motion(ranks, never=never)

    def _look_at(self, node: Node, unrelated: Collection[tuple[str, int]]) -> list[RankProgress]:
        """Look at the ranks of a node; those in view.

        Not seen is not still: where a node does not answer its last word is kept, and none of its ranks is in view.
        """
        at = node.seen_at
        if node.link not in {"live", "limited"} or at is None or not node.answers("ranks"):
            return []
        exchanged = self._exchanged_at(node)
        on = {process.pid: gpu for gpu in node.gpus.values() for process in gpu.processes}
        before, self.tracks[node.name] = self.tracks.get(node.name, {}), {}
        for pid, rank in node.ranks.items():
            if rank.gone_at is not None or rank.looks.newest is None or (node.name, pid) in unrelated:
                continue
            index = given_gpu(rank.process)
            gpu = on.get(pid) if node.gpu_processes else None if index is None else node.gpus.get(index)
            known = before.get(pid) or RankProgress(rank.looks.newest, at, at, rank.launched)
            self.tracks[node.name][pid] = known
            # What does not move is not sent; but what a node says between two looks tells of no rank: taken for a look
            # it was one in which the rank slept, and the next one showed its CPU time in a part of the time.
            early = at - known.seen_at < EARLY * self.between and rank.looks.newest is known.pulse
            if at > known.seen_at and not early:
                known.follow(at, rank, gpu, exchanged=exchanged, ours=at <= node.answering.get(pid, 0.0))
        return [*self.tracks[node.name].values()]

    def _exchanged_at(self, node: Node) -> float | None:
        """When the node was last seen to exchange what this job needs.

        What goes out comes in where ranks exchange. A checkpoint that is written, a data set that is read and our own
        channel go one way or are small. So the smaller of the two directions counts.
        """
        outward = {name: link for name, link in node.interfaces.items() if link.facts.kind not in LOCAL}
        links: dict[str, Counted] = {**node.ports, **outward}
        exchanged = None
        for name, link in links.items():
            rate = min(link.sent_per_s or 0.0, link.received_per_s or 0.0)
            self._most[node.name, name] = most = max(rate, self._most[node.name, name])
            if rate >= max(FLOOR, SHARE * most):
                exchanged = max(link.at, exchanged or link.at)
        return exchanged

    def _take(self, now: float, still: float | None) -> None:
        """Take how long the ranks were still; what they came back from was a pause until then, whenever known."""
        before, then = self.stood_still, self._now
        self.stood_still, self._now = still, now
        if before is not None and still is not None and PAUSE <= before > still + 0.1:
            self.pauses.append((then - before, now - still))

    def _stillness(self, now: float, still: float, *, never: bool) -> float:
        """Seconds for which the job stood still, by its logs too; ``never``: its ranks have not moved while watched."""
        steps = self._steps
        if steps.grown_at is not None:
            # One rank logs what all have done together.
            return max(0.0, min(still, now - steps.grown_at))
        if never and steps.every is not None and steps.told_at is not None:
            since = now - steps.told_at
            return max(still, since) if since > OVERDUE * steps.every + LAG else still
        return still

    def _motion(self, ranks: Collection[RankProgress], *, never: bool) -> JobMotion:
        """What moves, and the strongest sign of it, for people."""
        steps, still = self._steps, self.stood_still
        stepping = steps.going_on() and (still is None or still <= steps.fresh)
        shown = self._shown(ranks)
        proof = (steps.proof() if stepping else "") or next(iter(shown.values()), "")
        moving = True if stepping or proof else False if still is not None and still > self._rhythm() else None
        since = None if still is None or moving else self._now - still
        if since is not None and never and steps.told_at is not None:
            since = min(since, steps.told_at)
        by_gpus = list(shown) == [MotionSign.GPU] and not stepping
        return JobMotion(moving, proof, steps.last, steps.told_at, steps.longest, since, by_gpus)

    def _shown(self, ranks: Collection[RankProgress]) -> dict[MotionSign, str]:
        """Signs that at least half of the ranks show, and more than one of several, with the words, strongest first."""
        since = self._now - max(LATELY, LOOKS * self.between)
        needed = max(1, min(2, len(ranks)), (len(ranks) + 1) // 2)
        showing = {sign: sum(rank.advanced.get(sign, 0.0) >= since for rank in ranks) for sign in MotionSign}
        return {sign: f"{count(of, 'rank')} {sign.value}" for sign, of in showing.items() if of >= needed}

    def _rhythm(self) -> float:
        """Seconds for which this job may show nothing between two steps."""
        usual = min(LONGEST_RHYTHM, self.usual_pause or 0.0)
        return max(PAUSE, 2.0 * self.between, 1.5 * (self._steps.every or 0.0), usual)
