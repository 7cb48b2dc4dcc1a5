"""The one-line summary of a verdict, and the proof that a job makes progress."""

from __future__ import annotations

from hangtop.diagnosis.evidence.event_fields import number_of, text_of
from hangtop.diagnosis.evidence.events import finished
from hangtop.diagnosis.evidence.gpus import seen_gpus
from hangtop.diagnosis.finding import Finding, Outcome
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, duration, listed, of_several, rank_text, ranks_on, ranks_text
from hangtop.diagnosis.roster import out_of_sight, world_size
from hangtop.diagnosis.rules.stalled import standing
from hangtop.diagnosis.rules.startup import launching
from hangtop.diagnosis.tables.kinds import word_of
from hangtop.diagnosis.tables.thresholds import IDLE_UTILIZATION, LONG_WORK_S
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import nodes_of
from hangtop.diagnosis.waits.wake_set import WakeProgress

ELSEWHERE = "for others: hangtop NODE…, hangtop --slurm JOBID"
NAME_LOGS = "--log GLOB, hangtop analyze"
APART_S, STEP_SLACK_S = 5.0, 2.0
"""Ours: ranks of a finished run end within a second of each other, or some more on a node without a free core; the log
may still count a step that was under way."""
USUAL_PAUSES = 4
"""Ours: so many longer pauses show that the pause is usual for this job."""


def summary_of(job_status: JobStatus, outcome: Outcome, findings: tuple[Finding, ...]) -> str:
    """One line for an outcome: the summary of the first finding that decides, else what was seen of the job."""
    job = job_status.job
    having = {rank.node for rank in job.ranks if rank.gone_at is None}
    nodes = count(sum(node.connected or node.name in having for node in job.nodes.values()), "node")
    ranks = sum(rank.gone_at is None for rank in job.ranks)
    watched = f", watched for {duration(job.watched)}" if job.watched else ""
    waiting = next((finding.summary for finding in findings if finding.kind == "waiting"), "")
    world = world_size(job)
    seen = f"{f'{ranks:,} of {world} ranks' if world and world != ranks else count(ranks, 'rank')} on {nodes}"
    match outcome:
        case "hung" | "crashed" | "at_risk" | "waiting" | "slow" if findings:
            return findings[0].summary
        case "healthy" if not job.live:
            return "the run ended well, and nothing is wrong in what was read"
        case "healthy":
            return f"{seen}{watched}: {waiting or 'nothing is wrong'} ({proof_of_motion(job_status)})"
        case "starting":
            return f"{seen} starting up{watched}{f': {waiting}' if waiting else ''}" if ranks else launching(job)
        case "idle":
            none = f"no rank runs on {f'this machine ({ELSEWHERE})' if job.unasked else nodes}"
            return f"{none}: if a job ended here, name its logs ({NAME_LOGS})"
        case _ if not job.live:
            summaries = (f.summary for f in findings if f.kind in ("rank_killed", "gpu_xid") or _speaks(f))
            return next(summaries, "") or _of_files(job_status)
        case _:
            serious = (f for f in findings if (_speaks(f) if ranks else f.severity != "info"))
            if (reason := next(iter(serious), None)) is not None:
                return reason.summary
            return f"{seen}{watched}: {_unsettled(job_status, waiting)}" if ranks else _without_ranks(job, nodes)


def _speaks(finding: Finding) -> bool:
    """Whether a finding can decide the outcome."""
    return finding.severity != "info" and word_of(finding.kind) != "none"


def _without_ranks(job: Job, nodes: str) -> str:
    """Why nothing is known about a live job without a living rank in view."""
    if job.ranks and not finished(job):
        gone = duration(max(0.0, job.now - max(rank.gone_at or 0.0 for rank in job.ranks)))
        return (
            f"all {count(len(job.ranks), 'rank')} ended {gone} ago while they were watched, and nothing that was read "
            f"says how: name their logs ({NAME_LOGS})"
        )
    if job.nodes and all(node.link == "connecting" for node in job.nodes.values()):
        return f"{count(len(job.nodes), 'node')} asked, none has answered yet"
    used, moves = gpus_in_use(job), not job.ranks and job.motion.moving
    in_use = f"; GPUs in use there: {used}" if used else f", but a log grows: {job.motion.proof}" if moves else ""
    return f"no rank is known on {nodes}{in_use}"


def _unsettled(job_status: JobStatus, waiting: str) -> str:
    """Text on what was seen of living ranks, and on what would settle whether they compute or stand still."""
    nothing = "nothing was seen to move and nothing is known to be wrong"
    hidden = {rank: name for name in job_status.job.nodes for rank in out_of_sight(job_status.job, name)}
    unseen = f"nothing is known about {ranks_on(hidden, hidden.values())} now" if hidden else ""
    still = contradiction(job_status) or unseen or ended_alone(job_status) or waiting or standing(job_status) or nothing
    return f"{still}; to settle it: a log that counts steps, or a longer watch"


# --- motion ------------------------------------------------------------------------------------------------------


def proof_of_motion(job_status: JobStatus) -> str:
    """Text on what proves that the job makes progress; empty without a proof, or if an observation contradicts it.

    CPU use alone proves nothing, because a rank that waits in NCCL spins. A working rank that is seen at other lines is
    a proof.
    """
    job = job_status.job
    if contradiction(job_status):
        return ""
    if job.motion.moving:
        return job.motion.proof
    if sign := _computing(job_status) or _usual_pause(job):
        return sign
    moving = (status for status in job_status.of("working") if status.activity and status.activity.moving)
    works = (status for status in moving if job_status.wake_set(status).progress is WakeProgress.WORKS)
    return next((f"rank {status.rank} works: {status.where}" for status in works), "")


def _usual_pause(job: Job) -> str:
    """Text on a pause that is shorter than several earlier pauses of the job; empty without such a pause."""
    if (still := job.stood_still) is None:
        return ""
    longer = sum(ended - began >= still for began, ended in job.pauses)
    return f"a pause of {duration(still)}, as {longer} times before" if longer >= USUAL_PAUSES else ""


def contradiction(job_status: JobStatus) -> str:
    """Text with both sides if a sign of motion in a live job contradicts ranks that stand still; empty without.

    Against GPUs that compute, every rank must stand at one line for long, because GPUs may compute without their ranks.
    Against steps in a log, one rank that stands still in a wait is enough: the steps do not depend on its wait.
    """
    motion = job_status.job.motion
    signs, by_steps = motion.proof if motion.moving else _computing(job_status), motion.moving and not motion.by_gpus
    least = job_status.alarm_after if by_steps else max(job_status.alarm_after, LONG_WORK_S)
    still = [s for s in job_status.read if s.read and s.frozen is not False and s.held >= least]
    standing = [status for status in still if status.state == "waiting" and status.frozen] if by_steps else still
    some = by_steps or len(standing) == len(job_status.present)
    if not (signs and standing and some):
        return ""
    doing = f" ({standing[0].activity.label})" if standing[0].activity is not None else ""
    who, has = ranks_text([status.rank for status in standing]), of_several("has", len(standing))
    return f"{signs}, but {who} {has} not moved for {duration(min(status.held for status in standing))}{doing}"


def _computing(job_status: JobStatus) -> str:
    """``2 GPUs compute``, if at least half of the known GPUs of ranks compute; else empty."""
    present = [status for status in job_status.present if status.load != "unknown"]
    computing = sum(status.load == "computing" for status in present)
    if not computing or 2 * computing < len(present):
        return ""
    return f"{count(computing, 'GPU')} {'computes' if computing == 1 else 'compute'}"


def gpus_in_use(job: Job) -> int:
    """Number of GPUs that a process keeps busy."""
    held = (gpu for _, gpu in seen_gpus(job) if gpu.processes)
    return sum((gpu.samples[-1].value.utilization or 0) > IDLE_UTILIZATION for gpu in held)


def ended_alone(job_status: JobStatus) -> str:
    """Text on ranks that ended while others stay; empty if none did, if steps continue, or if the run is over."""
    job, gone = job_status.job, [status for status in job_status.of("gone") if status.held >= APART_S]
    first = max((status.held for status in gone), default=0.0)
    stepped = (job.motion.last_step_at or 0.0) > job.now - first + STEP_SLACK_S
    if not gone or stepped or not job_status.present or finished(job):
        return ""
    ended = ranks_on((status.rank for status in gone), nodes_of(gone))
    return f"{ended} ended {duration(first)} ago while the others stay"


# --- files of a run that is over ---------------------------------------------------------------------------------


def _of_files(job_status: JobStatus) -> str:
    """Summary of files without a finding that decides."""
    samples = [f"{rank_text(s.rank)} {s.activity.label} ({s.where})" for s in job_status.read if s.activity]
    if samples:
        return f"{count(len(samples), 'rank')} looked at: {listed(samples, 2)}; no rank is seen to hold up the others"
    job = job_status.job
    ends = [event for _, event in job.events_of("log.end")]
    steps = [(text_of(event, "counter"), step) for event in ends if (step := number_of(event, "step")) is not None]
    known = any(not event.kind.startswith("log.") for event in job.events)
    if not (job.recorders or job.ras or job.progress or steps or known):
        return "nothing to judge: what was read has no line that hangtop knows"
    counted = f"; it counts up to {steps[-1][0].replace('bar', 'step')} {steps[-1][1]:,}" if steps else ""
    return f"nothing wrong was found in what was read{counted}, and it does not say how the run ended"
