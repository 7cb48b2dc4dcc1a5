"""The progress clock of a job: since when nothing advances, by counters that nodes send anyway. No rank is asked.

Training steps in the job's logs are the best sign (:mod:`steps`). For each rank there is also the time at which its own
counters last advanced (:mod:`rank_progress`): collectives, traffic of its node, its GPU, its process.

In a hang the culprit may be busy, but the ranks that wait are still; in a healthy job every rank moves in each step. So
the job has stood still for as long as at least half of its ranks have been still. The longest pause that the job
resumed from (evaluation, checkpoint, compilation) is its usual pause, and fades: ten minutes of compiling at the start
must not make the watch deaf for days. A hang that is older than the session shows by the last step in a log that had
steps at regular intervals.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterator, Mapping

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
"""Seconds of the shortest pause that counts (several updates fall into it), and how many pauses are kept."""
HALF_LIFE = 600.0
"""Seconds after its end in which a pause's length counts half."""
LAG = 3.0
"""Seconds after a node's last sample for which its ranks may still be counted as still, if it sends often."""
LATELY, INTERVALS = 5.0, 2.5
"""Seconds for which a sign shows that a rank moves, or this many intervals between updates, whichever is longer."""
FRESH = 1.2
"""Updates within which a rank must have moved to count as moving now."""
EARLY = 0.5
"""Part of the time between two updates: a node's sample that comes sooner is not a new one of its ranks."""
UPDATED_OFTEN = 2
"""Updates without motion after which a rank counts as still."""
LONGEST_RHYTHM = 60.0
"""Seconds: a longer pause is not part of every step."""
OVERDUE = 3.0
"""Multiple of a log's usual time between steps after which the last step counts as the last sign of life."""
SHARE, FLOOR = 0.1, 10e6
"""Least traffic that counts as the job's: this part of the most that the port or interface has exchanged, and this many
bytes per second in each direction."""
LOCAL = ("loopback",)
"""Kinds of interfaces without another node behind them: programs of one node use them among themselves."""
SLICE = 12
"""Nodes in one slice of work: about 2 ms."""


class ProgressClock:
    """Follows the counters of one job; call :meth:`updating` about once a second."""

    def __init__(self, state: JobState) -> None:
        self._state = state
        self._ranks: dict[str, dict[int, RankProgress]] = {}
        """Progress of each rank in view, by node and pid."""
        self.alive = 0
        """Ranks in view."""
        self.stopped: dict[tuple[str, int], float] = {}
        """(node, pid) of ranks that have not moved since the last update but one → when they last moved."""
        self._between = state.interval
        """Seconds between two updates of a node."""
        self.stood_still: float | None = None
        """Seconds for which at least half of the ranks in view have been still; None without a rank in view."""
        self.motion = JobMotion()
        """What moved recently, and the proof."""
        self._most: dict[tuple[str, str], float] = defaultdict(float)
        """(node, port or interface) → most bytes per second that it exchanged in both directions."""
        self.steps = JobSteps(0.0)
        """The training steps in the job's logs."""
        self._now = 0.0
        self.pauses: deque[tuple[float, float]] = deque(maxlen=PAUSES)
        """Begin and end of the last pauses of at least :data:`PAUSE` seconds."""

    @property
    def usual_pause(self) -> float | None:
        """Seconds of the longest pause that the job resumed from, after fading; None before any pause.

        The longest step in the job's log counts as a pause too, because a short watch has not seen one yet.
        """
        lasted = [(end - begin, self._now - end) for begin, end in self.pauses]
        known = [seconds * 0.5 ** (past / HALF_LIFE) for seconds, past in lasted]
        known += [min(self.steps.longest, A_STEPS_PAUSE)] if self.steps.longest is not None else []
        return max(known, default=None)

    def updating(self, now: float, unrelated: Collection[tuple[str, int]] = ()) -> Iterator[None]:
        """Compare each living rank with the last update; ``unrelated`` is (node, pid) of other runs' processes.

        It does so in slices of :data:`SLICE` nodes, between which the event loop can do other work.
        """
        interval, known_until = self._state.interval, now - self._state.untold
        self._between = max(interval, now - self._now) if self._now else interval
        # the ranks of a silent node count as still for a short time after its last sample, no longer
        lag = max(LAG, 1.5 * self._between)
        since = now - max(LATELY, INTERVALS * self._between)
        stills: list[float] = []
        stopped: dict[tuple[str, int], float] = {}
        unmoved, showing = 0, Counter[MotionSign]()
        steps, nodes = JobSteps(known_until), self._state.nodes
        for number, node in enumerate(tuple(nodes.values()), 1):
            for pid, rank in self._update_ranks(node, unrelated).items() if node.ranks else ():
                if not rank.advanced or rank.moved_at < rank.seen_at - FRESH * self._between:
                    stopped[node.name, pid] = rank.moved_at
                stills.append(min(max(known_until, rank.seen_at), rank.seen_at + lag) - rank.moved_at)
                unmoved += not rank.advanced and rank.updates >= UPDATED_OFTEN
                showing.update(sign for sign, at in rank.advanced.items() if at >= since)
            if node.steps:
                steps.take(node, unrelated)
            if number % SLICE == 0:
                yield
        self._ranks = {name: of for name, of in self._ranks.items() if name in nodes and nodes[name].ranks}
        self.steps, self.alive, self.stopped = steps, len(stills), stopped
        half = (len(stills) + 1) // 2
        never = unmoved >= half
        stills.sort()
        self._take(now, self._stillness(now, max(0.0, stills[-half]), never=never) if stills else None)
        needed = max(1, min(2, len(stills)), half)
        self.motion = self._motion({sign: showing[sign] for sign in MotionSign if showing[sign] >= needed}, never=never)

    def _update_ranks(self, node: Node, unrelated: Collection[tuple[str, int]]) -> dict[int, RankProgress]:
        """Update the ranks of a node; returns the ranks in view by pid.

        Unseen is not still: if a node does not answer, its last state is kept, and none of its ranks is in view.
        """
        at = node.seen_at
        if not node.connected or at is None or not node.answers("ranks"):
            return {}
        exchanged = self._exchanged_at(node)
        on = {process.pid: gpu for gpu in node.gpus.values() for process in gpu.processes}
        before, ranks = self._ranks.get(node.name, {}), dict[int, RankProgress]()
        for pid, rank in node.ranks.items():
            if rank.gone_at is not None or rank.pulses.newest is None or (node.name, pid) in unrelated:
                continue
            index = given_gpu(rank.process)
            gpu = on.get(pid) if node.gpu_processes else None if index is None else node.gpus.get(index)
            known = before.get(pid) or RankProgress(rank.pulses.newest, at, at, rank.launched)
            ranks[pid] = known
            # A rank that does not move is not sent. But samples that come sooner show nothing about ranks: taken for an
            # update, the rank would seem to sleep, and the next update would have its CPU time in a shorter time.
            early = at - known.seen_at < EARLY * self._between and rank.pulses.newest is known.pulse
            if at > known.seen_at and not early:
                known.follow(at, rank, gpu, exchanged=exchanged, ours=at <= rank.answers_until)
        self._ranks[node.name] = ranks
        return ranks

    def _exchanged_at(self, node: Node) -> float | None:
        """When the node last had traffic as of this job's collectives.

        Collectives send and receive at similar rates. Writing a checkpoint or reading a data set goes in one direction,
        and hangtop's own traffic is small. So the smaller of the two directions counts.
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
        """Set the seconds for which the job has been still; if the ranks moved since, note the pause that ended."""
        before, then = self.stood_still, self._now
        self.stood_still, self._now = still, now
        if before is not None and still is not None and PAUSE <= before > still + 0.1:
            self.pauses.append((then - before, now - still))

    def _stillness(self, now: float, still: float, *, never: bool) -> float:
        """Seconds for which the job has stood still, logs included; ``never``: its ranks did not move while watched."""
        steps = self.steps
        if steps.grown_at is not None:
            # One rank logs steps that all ranks took together.
            return max(0.0, min(still, now - steps.grown_at))
        if never and steps.every is not None and steps.logged_at is not None:
            since = now - steps.logged_at
            return max(still, since) if since > OVERDUE * steps.every + LAG else still
        return still

    def _motion(self, shown: Mapping[MotionSign, int], *, never: bool) -> JobMotion:
        """What moves; ``shown``: signs of at least half of the ranks (of two, if there are two), strongest first."""
        steps, still = self.steps, self.stood_still
        stepping = steps.going_on() and (still is None or still <= steps.fresh)
        strongest = next((f"{count(of, 'rank')} {sign.value}" for sign, of in shown.items()), "")
        proof = (steps.proof() if stepping else "") or strongest
        moving = True if stepping or proof else False if still is not None and still > self._rhythm() else None
        since = None if still is None or moving else self._now - still
        if since is not None and never and steps.logged_at is not None:
            since = min(since, steps.logged_at)
        by_gpus = list(shown) == [MotionSign.GPU] and not stepping
        return JobMotion(moving, proof, steps.last, steps.logged_at, steps.longest, since, by_gpus)

    def _rhythm(self) -> float:
        """Seconds without any sign that are usual between two steps of this job."""
        usual = min(LONGEST_RHYTHM, self.usual_pause or 0.0)
        return max(PAUSE, 2.0 * self._between, 1.5 * (self.steps.every or 0.0), usual)
