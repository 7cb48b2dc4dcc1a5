"""What ranks tell of themselves: who is behind the others, by step and phase alone, and what their checks found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from collectors.samples.inside import InsideFinding, InsideResult
from hangtop.diagnosis.finding import Evidence, Finding, Severity, next_step
from hangtop.diagnosis.job import Inside, Job, Rank
from hangtop.diagnosis.phrasing import count, duration, ranks_on, ranks_text
from hangtop.diagnosis.rules.stuck import ADVICE
from hangtop.diagnosis.tables.kinds import KINDS
from hangtop.diagnosis.tables.thresholds import LONG_WORK_S, WORTH_SAYING_S
from hangtop.diagnosis.waits.job_status import JobStatus

ORDER = {"checkpoint": 0, "evaluation": 0, "data": 1, "forward": 2, "backward": 3, "optimizer": 4}
"""Where a phase lies in a step: steps are told at their end, and what comes between two steps comes before the next."""
KIND = {"data": "rank_stuck_in_data", "checkpoint": "rank_stuck_in_checkpoint"}
LONG = frozenset({"checkpoint", "evaluation"})
"""Phases for which ranks wait in a healthy job, too."""
LEAST = 2
"""Steps by which a rank of a job that moves must be behind: one is a matter of when each was looked at."""
FEW = 4
"""Those behind are at most one in so many, and one of fewer than that."""
LATELY = 5.0
"""Seconds since their last step within which ranks are said to go on."""
REPEATED = 3
"""Ranks by which the same finding is told that stand for all: each that took part in a check tells it."""


@dataclass(frozen=True, slots=True)
class Told:
    """One rank, and where it says that it is."""

    rank: Rank
    inside: Inside

    @property
    def place(self) -> tuple[int, int]:
        """Step and order of the phase; comparable among ranks."""
        pulse = self.inside.pulse
        return -1 if pulse.step is None else pulse.step, ORDER.get(pulse.phase, 0)

    @property
    def since(self) -> float:
        """When it last told anything."""
        pulse = self.inside.pulse
        return max(pulse.step_at or 0.0, pulse.phase_at or 0.0)

    def words(self, now: float) -> str:
        """``step 117 done 44 s ago, in data for 41 s``."""
        pulse = self.inside.pulse
        step = "no step done yet" if pulse.step is None else f"step {pulse.step:,} done {_ago(now, pulse.step_at)}"
        return step + (f", in {pulse.phase} for {_lasted(now, pulse.phase_at)}" if pulse.phase else "")


def behind(job_status: JobStatus) -> Iterator[Finding]:
    """rank_stuck_in_data, rank_stuck_in_checkpoint, rank_stuck_in_code, straggler_rank: by steps and phases alone.

    Needs ranks that called ``hangtop.inside.start()``, most of the job, and no stack at all. In a job in which none of
    them goes on, the few that are at an earlier point than all others hold those up; in one that goes on, a rank that
    is some steps behind and has not moved while the others did is late.
    """
    job = job_status.job
    told = _told(job)
    if not job.live or len(told) < 2 or len(told) * 2 < len(job.ranks):
        return
    first = min(one.place for one in told)
    few = [one for one in told if one.place == first]
    others = [one for one in told if one.place != first]
    if not others or len(few) > max(1, len(told) // FEW):
        return
    held = job.now - max(one.since for one in others)
    going_on = job.motion.moving or held < WORTH_SAYING_S
    if going_on:
        yield from _late(job, few, others)
    elif held >= _due(job_status, few):
        yield _stuck(job, few, others, held)


def checks(job: Job) -> Iterator[Finding]:
    """Whatever a check of ``hangtop.inside`` found that was made in the job: the latest of each, of ranks that live.

    The same finding is told by each rank that took part; it is one.
    """
    seen: dict[tuple[str, str, str], list[tuple[Rank, InsideResult, InsideFinding]]] = {}
    newest: dict[tuple[str, tuple[int, ...]], float] = {}
    results = [(rank, result) for rank in job.ranks if rank.gone_at is None and rank.inside is not None
               for result in rank.inside.results]  # fmt: skip
    for _, result in results:
        key = result.check, tuple(result.ranks)
        newest[key] = max(newest.get(key, 0.0), result.at)
    for rank, result in results:
        # one that was made again since, and found nothing, takes back what it had found
        if result.at < newest[result.check, tuple(result.ranks)] - max(LATELY, result.seconds):
            continue
        for finding in result.findings:
            if finding.kind in KINDS:
                seen.setdefault((result.check, finding.kind, finding.summary), []).append((rank, result, finding))
    for (check, kind, summary), tellers in seen.items():
        _, result, finding = tellers[0]
        culprits = tuple(sorted(finding.ranks))
        accused = frozenset(culprits)
        yield Finding(
            kind, _severity(finding), 0.95, summary, ranks=culprits,
            nodes=tuple(sorted({rank.node for rank in job.ranks if rank.rank in accused and rank.node})),
            evidence=(
                *(Evidence(f"hangtop.inside check {check}", result.at, line) for line in finding.evidence),
                Evidence("ranks", result.at, f"told by {_tellers(tellers)}, of {count(len(result.ranks), 'rank')}"),
            ),
            advice=finding.advice,
        )  # fmt: skip


def _told(job: Job) -> list[Told]:
    """Ranks that tell where they are, on nodes that answer."""
    found = []
    for rank in job.ranks:
        node, inside = job.nodes.get(rank.node), rank.inside
        if rank.gone_at is not None or inside is None or node is None or node.link not in {"live", "limited"}:
            continue
        if inside.pulse.step is not None or inside.pulse.phase:
            found.append(Told(rank, inside))
    return found


def _due(job_status: JobStatus, few: Sequence[Told]) -> float:
    """Seconds that the others may wait for these: more where they may be at work, or are in what takes long."""
    due = job_status.alarm_after
    for one in few:
        status = job_status.statuses.get(one.rank.rank)
        if status is not None and job_status.works(status):
            return float("inf")
        busy = status is not None and (status.motion.busy or status.motion.helped)
        if busy or one.inside.pulse.phase in LONG:
            due = max(due, LONG_WORK_S)
    return due


def _stuck(job: Job, few: Sequence[Told], others: Sequence[Told], held: float) -> Finding:
    first = few[0]
    pulse = first.inside.pulse
    kind = KIND.get(pulse.phase, "rank_stuck_in_code")
    steps = max(one.place[0] for one in others) - first.place[0]
    lag = f"{count(steps, 'step')} behind, " if steps else f"the last in step {first.place[0] + 1:,}, "
    where = f"in {pulse.phase} for {_lasted(job.now, pulse.phase_at)}" if pulse.phase else "between two steps"
    return Finding(
        kind, "critical", 0.8,
        f"{_ranks(few)} {'is' if len(few) == 1 else 'are'} {lag}{where}: {count(len(others), 'other')} "
        f"{'has' if len(others) == 1 else 'have'} waited for {duration(held)}",
        ranks=_numbers(few), nodes=_nodes(few), evidence=_proof(job, few, others), advice=ADVICE[kind],
        next=(next_step("d", "stacks", first.rank.node, "--rank", str(first.rank.rank)),),
    )  # fmt: skip


def _late(job: Job, few: Sequence[Told], others: Sequence[Told]) -> Iterator[Finding]:
    """A rank that fell behind others that go on: their steps do not wait for it."""
    first = few[0]
    goes_on = [one for one in others if job.now - (one.inside.pulse.step_at or 0.0) <= LATELY]
    lag = min((one.place[0] for one in goes_on), default=0) - first.place[0]
    stands = job.now - first.since
    if len(goes_on) * 2 <= len(others) or lag < LEAST or stands < max(2 * LATELY, min(job.alarm_after, LONG_WORK_S)):
        return
    where = f", in {first.inside.pulse.phase} for {duration(stands)}" if first.inside.pulse.phase else ""
    yield Finding(
        "straggler_rank", "warning", 0.75,
        f"{_ranks(few)} {'is' if len(few) == 1 else 'are'} {count(lag, 'step')} behind{where}, and the others go on",
        ranks=_numbers(few), nodes=_nodes(few), evidence=_proof(job, few, others),
        advice="The others do not wait for it in every step; they will where they next meet.",
        next=(next_step("d", "stacks", first.rank.node, "--rank", str(first.rank.rank)),),
    )  # fmt: skip


def _proof(job: Job, few: Sequence[Told], others: Sequence[Told]) -> tuple[Evidence, ...]:
    ahead = max(others, key=lambda one: one.place)
    return (
        *(Evidence(f"hangtop.inside rank {one.rank.rank}", one.since, one.words(job.now)) for one in few[:REPEATED]),
        Evidence("ranks", ahead.since, f"{ranks_text(_numbers(others))}: {ahead.words(job.now)}"),
    )


def _tellers(tellers: Sequence[tuple[Rank, InsideResult, InsideFinding]]) -> str:
    return ranks_text(rank.rank for rank, _, _ in tellers)


def _severity(finding: InsideFinding) -> Severity:
    return "critical" if finding.severity == "critical" else "warning" if finding.severity == "warning" else "info"


def _ranks(few: Sequence[Told]) -> str:
    return ranks_on(_numbers(few), _nodes(few))


def _numbers(few: Sequence[Told]) -> tuple[int, ...]:
    return tuple(one.rank.rank for one in few)


def _nodes(few: Sequence[Told]) -> tuple[str, ...]:
    return tuple(sorted({one.rank.node for one in few if one.rank.node}))


def _ago(now: float, at: float | None) -> str:
    return "at an unknown time" if at is None else f"{duration(max(0.0, now - at))} ago"


def _lasted(now: float, at: float | None) -> str:
    return "an unknown time" if at is None else duration(max(0.0, now - at))
