"""What ranks tell through ``hangtop.inside``, and what was measured in this session: probes and profiler traces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from collectors.samples.probes import ProbeReport
from hangtop.diagnosis import traces
from hangtop.diagnosis.finding import Evidence, Finding, Observer, Severity, next_step
from hangtop.diagnosis.job import Job, Rank
from hangtop.diagnosis.measured import probes
from hangtop.diagnosis.phrasing import count, duration, of_several, ranks_on, ranks_text
from hangtop.diagnosis.rules.stuck import ADVICE
from hangtop.diagnosis.tables.kinds import KINDS
from hangtop.diagnosis.tables.thresholds import LONG_WORK_S, WORTH_SAYING_S
from hangtop.diagnosis.waits.job_status import JobStatus

ORDER = {"checkpoint": 0, "evaluation": 0, "data": 1, "forward": 2, "backward": 3, "optimizer": 4}
"""Where a phase lies in a step: steps are told at their end, and what comes between two steps comes before the next."""
KIND = {"data": "rank_stuck_in_data", "checkpoint": "rank_stuck_in_checkpoint"}
LONG = ("checkpoint", "evaluation")
"""Phases for which ranks wait in a healthy job, too."""
SEVERITIES: dict[str, Severity] = {"critical": "critical", "warning": "warning"}
SAME_CHECK_S = 5.0
"""Ours: seconds within which ranks tell the result of one check."""
FRESH_S = 600.0
"""Ours, seconds: of a running job older probes and traces say how it was, not how it is."""


def behind(job_status: JobStatus) -> Iterator[Finding]:
    """rank_stuck_in_data, rank_stuck_in_checkpoint, rank_stuck_in_code: by steps and phases alone, without a stack.

    In a job in which most ranks tell their steps and none goes on, the few (a quarter at most) that are at an earlier
    point than all others hold those up.
    """
    job = job_status.job
    told = [rank for rank in job.ranks if _tells(job, rank)]
    if not job.live or len(told) < 2 or len(told) * 2 < len(job.ranks) or job.motion.moving:
        return
    first = min(map(_point, told))
    few, others = [one for one in told if _point(one) == first], [one for one in told if _point(one) != first]
    held = job.now - max(map(_since, others)) if others else 0.0
    if not others or len(few) > max(1, len(told) // 4) or held < WORTH_SAYING_S:
        return
    if any(held < _due(job_status, rank) for rank in few):
        return
    phase = few[0].inside.pulse.phase if few[0].inside else ""
    steps = max(_point(rank)[0] for rank in others) - first[0]
    lag = f"{count(steps, 'step')} behind" if steps else f"the last in step {first[0] + 1:,}"
    where = f"in {phase} for {duration(job.now - _since(few[0]))}" if phase else "between two steps"
    kind, ahead = KIND.get(phase, "rank_stuck_in_code"), max(others, key=_point)
    numbers = tuple(rank.rank for rank in few)
    yield Finding(
        kind, "critical", 0.8,
        f"{ranks_on(numbers, (rank.node for rank in few))} {of_several('is', len(few))} {lag}, {where}: "
        f"{count(len(others), 'other')} {of_several('has', len(others))} waited for {duration(held)}",
        ranks=numbers, nodes=tuple(sorted({rank.node for rank in few} - {""})),
        evidence=tuple(
            Evidence(
                Observer.INSIDE, f"hangtop.inside rank {rank.rank}", _since(rank), f"step {_point(rank)[0]:,} done"
            )
            for rank in (*few[:3], ahead)
        ),
        advice=ADVICE[kind], next=(next_step("d", "stacks", few[0].node, "--rank", str(few[0].rank)),),
    )  # fmt: skip


def _tells(job: Job, rank: Rank) -> bool:
    """Whether a living rank on a node that responds says where it is."""
    node = job.nodes.get(rank.node)
    if rank.gone_at is not None or rank.inside is None or node is None or node.link not in ("live", "limited"):
        return False
    return rank.inside.pulse.step is not None or bool(rank.inside.pulse.phase)


def _point(rank: Rank) -> tuple[int, int]:
    """Step and order of the phase; comparable among ranks."""
    assert rank.inside is not None
    pulse = rank.inside.pulse
    return -1 if pulse.step is None else pulse.step, ORDER.get(pulse.phase, 0)


def _since(rank: Rank) -> float:
    assert rank.inside is not None
    return max(rank.inside.pulse.step_at or 0.0, rank.inside.pulse.phase_at or 0.0)


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
        (rank, result) for rank in job.ranks if rank.gone_at is None and rank.inside is not None
        for result in rank.inside.results
    ]  # fmt: skip
    newest: dict[tuple[str, tuple[int, ...]], float] = {}
    for _, result in results:
        key = result.check, tuple(result.ranks)
        newest[key] = max(newest.get(key, 0.0), result.at)
    tellers: dict[tuple[str, str], list[int]] = {}
    found: dict[tuple[str, str], Finding] = {}
    for rank, result in results:
        if result.at < newest[result.check, tuple(result.ranks)] - max(SAME_CHECK_S, result.seconds):
            continue
        for one in result.findings:
            if one.kind in KINDS:
                found.setdefault((one.kind, one.summary), Finding(
                    one.kind, SEVERITIES.get(one.severity, "info"), 0.95, one.summary, ranks=tuple(sorted(one.ranks)),
                    nodes=tuple(sorted({r.node for r in job.ranks if r.rank in one.ranks and r.node})),
                    evidence=tuple(
                        Evidence(
                            Observer.INSIDE, f"hangtop.inside check {result.check}", result.at, line
                        ) for line in one.evidence
                    ),
                    advice=one.advice,
                ))  # fmt: skip
                tellers.setdefault((one.kind, one.summary), []).append(rank.rank)
    for key_of, finding in found.items():
        told = Evidence(Observer.CONTEXT, "ranks", job.now, f"told by {ranks_text(tellers[key_of])}")
        yield replace(finding, evidence=(*finding.evidence, told))


def traced(job: Job) -> Iterator[Finding]:
    """straggler_rank, data_bound, communication_bound: as the profiler traces of the ranks show them together."""
    if job.traces is not None:
        began = max((trace.began or 0.0 for trace in job.traces.ranks), default=0.0)
        if not job.live or abs(job.now - began) < FRESH_S:
            yield from traces.findings(job.traces)


def probed(job: Job) -> Iterator[Finding]:
    """slow_node, slow_link, packet_loss, path_blocked, bandwidth_low, silent_corruption: by probes of collectives.

    Of several probes with the same backend in this session the last one counts.
    """
    last: dict[str, ProbeReport] = {}
    for report in job.probed:
        if report.outcome != "cancelled" and 0.0 <= job.now - report.at < FRESH_S:
            last[report.backend] = report
    for report in last.values():
        yield from probes.measured(report, job)
