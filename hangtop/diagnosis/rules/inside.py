"""What ranks tell of themselves through ``hangtop.inside``: which is behind the others, and what their checks found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hangtop.diagnosis.finding import Evidence, Finding, Severity, next_step
from hangtop.diagnosis.job import Job, Rank
from hangtop.diagnosis.phrasing import count, duration, of_several, ranks_on, ranks_text
from hangtop.diagnosis.rules.stuck import ADVICE
from hangtop.diagnosis.tables.kinds import KINDS
from hangtop.diagnosis.tables.thresholds import LONG_WORK_S, WORTH_SAYING_S
from hangtop.diagnosis.waits.job_status import JobStatus

ORDER = {"checkpoint": 0, "evaluation": 0, "data": 1, "forward": 2, "backward": 3, "optimizer": 4}
"""Where a phase lies in a step: steps are told at their end, and what comes between two steps comes before the next."""
KIND = {"data": "rank_stuck_in_data", "checkpoint": "rank_stuck_in_checkpoint"}
LONG = frozenset({"checkpoint", "evaluation"})
"""Phases for which ranks wait in a healthy job, too."""
FEW = 4
"""Those behind are at most one in so many, and one of fewer than that."""
SAME_CHECK_S = 5.0
"""Ours: seconds within which ranks tell the result of one check."""
SEVERITIES: dict[str, Severity] = {"critical": "critical", "warning": "warning"}


def behind(job_status: JobStatus) -> Iterator[Finding]:
    """rank_stuck_in_data, rank_stuck_in_checkpoint, rank_stuck_in_code: by steps and phases alone, without a stack.

    Needs that most ranks of the job called ``hangtop.inside.start()``. In a job in which none of them goes on, the few
    that are at an earlier point than all others hold those up.
    """
    job = job_status.job
    told = [rank for rank in job.ranks if _tells(job, rank)]
    if not job.live or len(told) < 2 or len(told) * 2 < len(job.ranks) or job.motion.moving:
        return
    first = min(map(_place, told))
    few = [rank for rank in told if _place(rank) == first]
    others = [rank for rank in told if _place(rank) != first]
    if not others or len(few) > max(1, len(told) // FEW):
        return
    held = job.now - max(map(_since, others))
    if held < max(WORTH_SAYING_S, *(_due(job_status, rank) for rank in few)):
        return
    step, phase = first[0], few[0].inside.pulse.phase if few[0].inside else ""
    steps = max(_place(rank)[0] for rank in others) - step
    lag = f"{count(steps, 'step')} behind" if steps else f"the last in step {step + 1:,}"
    where = f"in {phase} for {duration(job.now - _since(few[0]))}" if phase else "between two steps"
    kind, ahead = KIND.get(phase, "rank_stuck_in_code"), max(others, key=_place)
    numbers = tuple(rank.rank for rank in few)
    yield Finding(
        kind, "critical", 0.8,
        f"{ranks_on(numbers, (rank.node for rank in few))} {of_several('is', len(few))} {lag}, {where}: "
        f"{count(len(others), 'other')} {of_several('has', len(others))} waited for {duration(held)}",
        ranks=numbers, nodes=tuple(sorted({rank.node for rank in few} - {""})),
        evidence=(
            *(Evidence(f"hangtop.inside rank {rank.rank}", _since(rank), _words(job, rank)) for rank in few[:3]),
            Evidence("ranks", _since(ahead), f"{ranks_text(rank.rank for rank in others)}: {_words(job, ahead)}"),
        ),
        advice=ADVICE[kind], next=(next_step("d", "stacks", few[0].node, "--rank", str(few[0].rank)),),
    )  # fmt: skip


def _tells(job: Job, rank: Rank) -> bool:
    """Whether a living rank on a node that responds says where it is."""
    node = job.nodes.get(rank.node)
    if rank.gone_at is not None or rank.inside is None or node is None or node.link not in ("live", "limited"):
        return False
    return rank.inside.pulse.step is not None or bool(rank.inside.pulse.phase)


def _place(rank: Rank) -> tuple[int, int]:
    """Step and order of the phase; comparable among ranks."""
    assert rank.inside is not None
    pulse = rank.inside.pulse
    return -1 if pulse.step is None else pulse.step, ORDER.get(pulse.phase, 0)


def _since(rank: Rank) -> float:
    assert rank.inside is not None
    return max(rank.inside.pulse.step_at or 0.0, rank.inside.pulse.phase_at or 0.0)


def _words(job: Job, rank: Rank) -> str:
    """``step 117 done, in data for 41 s``."""
    step, _ = _place(rank)
    phase = rank.inside.pulse.phase if rank.inside else ""
    done = "no step done yet" if step < 0 else f"step {step:,} done"
    return f"{done}{f', in {phase}' if phase else ''} for {duration(max(0.0, job.now - _since(rank)))}"


def _due(job_status: JobStatus, rank: Rank) -> float:
    """Seconds that the others may wait for this rank: more where it is in a phase that takes long; no end at work."""
    status = job_status.statuses.get(rank.rank)
    if status is not None and job_status.works(status):
        return float("inf")
    long = rank.inside is not None and rank.inside.pulse.phase in LONG
    busy = status is not None and (status.motion.busy or status.motion.helped)
    return max(job_status.alarm_after, LONG_WORK_S) if long or busy else job_status.alarm_after


def checks(job: Job) -> Iterator[Finding]:
    """Whatever a check of ``hangtop.inside`` found that was made in the job: the latest of each, of ranks that live.

    The same finding is told by each rank that took part; it is one. A check that was made again since, and found
    nothing, takes back what it had found.
    """
    results = [
        (rank, result)
        for rank in job.ranks
        if rank.gone_at is None and rank.inside is not None
        for result in rank.inside.results
    ]
    newest: dict[tuple[str, tuple[int, ...]], float] = {}
    for _, result in results:
        key = result.check, tuple(result.ranks)
        newest[key] = max(newest.get(key, 0.0), result.at)
    found: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
    for place, (_, result) in enumerate(results):
        if result.at >= newest[result.check, tuple(result.ranks)] - max(SAME_CHECK_S, result.seconds):
            for number, finding in enumerate(result.findings):
                if finding.kind in KINDS:
                    found.setdefault((result.check, finding.kind, finding.summary), []).append((place, number))
    for (check, kind, summary), tellers in found.items():
        result = results[tellers[0][0]][1]
        finding = result.findings[tellers[0][1]]
        ranks = tuple(sorted(finding.ranks))
        told_by = ranks_text(results[place][0].rank for place, _ in tellers)
        yield Finding(
            kind, SEVERITIES.get(finding.severity, "info"), 0.95, summary, ranks=ranks, nodes=_nodes(job, ranks),
            evidence=(
                *(Evidence(f"hangtop.inside check {check}", result.at, line) for line in finding.evidence),
                Evidence("ranks", result.at, f"told by {told_by}, of {count(len(result.ranks), 'rank')}"),
            ),
            advice=finding.advice,
        )  # fmt: skip


def _nodes(job: Job, ranks: Sequence[int]) -> tuple[str, ...]:
    return tuple(sorted({rank.node for rank in job.ranks if rank.rank in ranks and rank.node}))
