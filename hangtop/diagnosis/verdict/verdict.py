"""The verdict on a job: run all rules, put root causes first, and give the state of the job in one word.

``hung``: ranks wait, and the wait will not end. ``crashed``: ranks failed. ``at_risk``: hardware under a moving job is
broken. ``slow``: the job moves, but more slowly than it could. ``waiting``: ranks wait for a rank, and whether the wait
is a fault is unknown. ``starting``: ranks are coming up. ``healthy``: the job is seen to move, and nothing is wrong.
``idle``: nodes answer, but no rank runs there, no GPU is in use and no log shows progress. ``unknown``: the
observations settle nothing. Findings about configuration alone change no word: a healthy job may be badly configured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from hangtop.diagnosis.evidence.events import finished
from hangtop.diagnosis.failures.first import lives_on
from hangtop.diagnosis.failures.record import failures
from hangtop.diagnosis.failures.unheard import logs_behind
from hangtop.diagnosis.finding import Finding, Observer, Outcome, Unknown, Verdict
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Rank
from hangtop.diagnosis.phrasing import count
from hangtop.diagnosis.roster import out_of_sight, world_size
from hangtop.diagnosis.rules import RULES, STATUS_RULES
from hangtop.diagnosis.rules.nodes import left_over
from hangtop.diagnosis.rules.stalled import stalled
from hangtop.diagnosis.rules.startup import launching
from hangtop.diagnosis.rules.stuck import coming_up
from hangtop.diagnosis.tables.kinds import word_of
from hangtop.diagnosis.tables.thresholds import START_LONGEST_S, START_S
from hangtop.diagnosis.verdict.ranking import rank_findings
from hangtop.diagnosis.verdict.summary import ended_alone, gpus_in_use, proof_of_motion, summary_of
from hangtop.diagnosis.verdict.wait_boxes import wait_boxes
from hangtop.diagnosis.waits.job_status import JobStatus, status_of_job

UNREACHABLE = "node_unreachable"
"""A node without an answer may or may not hold the job back, so this kind gives no word on the job."""
FATAL = {"gpu_lost", "gpu_xid", "gpu_ecc", "gpu_driver_hung", UNREACHABLE}
"""Hardware that is broken and ends the ranks that use it."""
BLOCKING = {"storage_stalled", "kernel_trouble"}
"""Broken parts that make ranks wait."""
SURVIVED = "No alarm: the program caught the error. Check whether the work that it skipped matters."


def diagnose(job: Job) -> Verdict:
    """Judge one snapshot of a job. Pure: the verdict does not depend on the order of ranks, dumps and events."""
    job_status = status_of_job(job)
    found = [finding for rule in RULES for finding in rule(job_status.job)]
    found += [finding for status_rule in STATUS_RULES for finding in status_rule(job_status)]
    found = [_survived(job_status, finding) for finding in found]
    findings = rank_findings([*found, *stalled(job_status, found)])
    outcome = _outcome(job_status, findings)
    waits = wait_boxes(job_status, findings) if outcome in ("hung", "waiting") else ()
    summary = summary_of(job_status, outcome, findings)
    return Verdict(outcome, summary, findings, unread_sources(job_status), waits)


def _outcome(job_status: JobStatus, findings: tuple[Finding, ...]) -> Outcome:
    job = job_status.job
    critical = [finding for finding in findings if finding.severity == "critical"]
    roots = [finding for finding in critical if not finding.cause]
    present = any(status.state != "unseen" or status.process for status in job_status.present)
    for root in roots:  # the first root that shows how the job ended decides
        if _hangs(job_status, root):  # where nothing runs, nothing waits
            return "hung" if present or launching(job) or not job.live else "crashed"
        if word_of(root.kind) == "crashed":
            return "crashed"
    if broken := _of_broken_parts(job_status, roots, findings, present=present):
        return broken
    if job.live and job_status.graph.pattern != "none" and coming_up(job_status) and _begins(job_status):
        return "starting"
    words = {word_of(f.kind) for f in findings if f.severity != "info" and not f.cause and f.kind != UNREACHABLE}
    for word in ("at_risk", "waiting", "slow"):
        if word in words and (present or not job.live):
            return word
    if not job.live:
        return "healthy" if finished(job) else "unknown"
    return _undisturbed(job_status)


def _hangs(job_status: JobStatus, finding: Finding) -> bool:
    """Whether a finding shows ranks that wait, or that waited until their time-out ended the run.

    A failure of ranks counts, too, if the failed ranks still live in their program and hold up the others.
    """
    word, live = word_of(finding.kind), job_status.job.live
    if word == "hung" or (finding.kind == "watchdog_timeout" and not live):
        return True
    culprits = {status.rank for status in job_status.graph.culprits if status.state == "working" and status.read}
    failed = live and word == "crashed" and bool(finding.ranks)
    return failed and job_status.hung and culprits.issuperset(finding.ranks)


def _of_broken_parts(
    job_status: JobStatus, roots: Sequence[Finding], findings: Sequence[Finding], *, present: bool
) -> Outcome | None:
    """The word if a broken part explains why ranks ended or wait; else None."""
    job = job_status.job
    broken = {finding.kind for finding in roots if word_of(finding.kind) in ("at_risk", "slow")}
    if not broken:
        return None
    effects = [finding for finding in findings if finding.cause]
    severe = {finding.kind for finding in effects if finding.severity == "critical"}
    gone = {rank.rank for rank in job.ranks if rank.gone_at is not None}
    ended = any(root.kind in FATAL and root.ranks and gone.issuperset(root.ranks) for root in roots)
    if ended or severe & {"rank_crashed", "rank_killed"}:
        return "crashed"
    waits = any(finding.kind == "waiting" and finding.cause in FATAL - {UNREACHABLE} for finding in effects)
    if present and (job_status.hung or waits or "hung" in map(word_of, severe)):
        return "hung"
    if not job.live and (broken & FATAL or failures(job)):
        return "crashed"
    return "hung" if broken & BLOCKING and not job.live else None


def _undisturbed(job_status: JobStatus) -> Outcome:
    """The outcome of a live job without proof of a hang or a crash, and without a broken part."""
    job, present = job_status.job, job_status.present
    whole = len(present) == (world_size(job) or len(present) + 1)  # then a node without a login holds no rank
    links = {node.link for node in job.nodes.values() if not (whole and node.refused and node.seen_at is None)}
    away = links - {"live", "limited"}
    if links == away:
        return "unknown"
    if all(rank.gone_at is not None for rank in job.ranks):
        if away or not all(node.answers("ranks") and node.has_heard("ranks") for node in job.nodes.values()):
            return "unknown"
        if launching(job):
            return "starting"
        runs = gpus_in_use(job) or (job.motion.moving and not job.ranks)  # a process without a rank works
        return "unknown" if runs or (job.ranks and not finished(job)) else "idle"
    if away & {"stale", "lost"} or any(out_of_sight(job, name) for name in job.nodes):
        return "unknown"  # ranks out of sight may be in any state, whatever moves elsewhere
    if _begins(job_status):
        return "starting"
    return "healthy" if proof_of_motion(job_status) and not away and not ended_alone(job_status) else "unknown"


def _begins(job_status: JobStatus) -> bool:
    """Whether ranks are coming up: the youngest is young, and training has not begun or ranks are missing."""
    job, present = job_status.job, job_status.present
    age = min((job.now - rank.process.started for rank in job.ranks if rank.gone_at is None), default=0.0)
    leaves = all(status.state == "leaving" for status in present)
    yet_to_come = age < START_S and bool(job_status.of("missing"))
    return age < START_LONGEST_S and not leaves and (yet_to_come or not job_status.trained)


# --- failures that a rank logged and survived --------------------------------------------------------------------


def _survived(job_status: JobStatus, finding: Finding) -> Finding:
    """The same finding, or ``info`` if log lines report the end or the hang of ranks that live on in a moving job.

    A program that skips a batch when out of memory logs the same traceback as a program that ends. Lines that name no
    rank may be of any rank.
    """
    job = job_status.job
    by_logs = {line.observer for line in finding.evidence} == {Observer.LOG} and word_of(finding.kind) == "hung"
    ends = word_of(finding.kind) == "crashed"
    if not (job.live and job.motion.moving and finding.severity == "critical" and (ends or by_logs)):
        return finding
    logged = min((line.at for line in finding.evidence if line.at is not None), default=None)
    if not all(lives_on(job_status, rank, logged) for rank in finding.ranks or [rank.rank for rank in job.ranks]):
        return finding
    alive = "it lives" if len(finding.ranks) == 1 else "they live" if finding.ranks else "all ranks live"
    text = f"{finding.summary}; {alive}, and the job moves on"
    return replace(finding, severity="info", summary=text, advice=SURVIVED)


# --- what could not be read, or is not judged ----------------------------------------------------------------------

SOURCE_NAMES = {
    "gpus": "nvidia-smi", "gpu_processes": "list of GPU processes", "fabric": "InfiniBand ports",
    "network": "network counters", "kernel": "kernel log", "logs": "rank logs", "ranks": "ranks",
    "host": "host figures", "nvml": "NVML", "ras": "NCCL RAS",
}  # fmt: skip
NOT_READ = {"denied": "not allowed", "late": "gives no answer", "failed": "failed"}
MAY_LOOK = (
    "log in as the ranks' owner or as root, or add --sudo; a container needs SYS_PTRACE (hangtop preflight tells)"
)


def unread_sources(job_status: JobStatus) -> tuple[Unknown, ...]:
    """List unread sources (each reason once, for all its nodes), ranks without stacks, and other jobs."""
    job = job_status.job
    reasons: dict[tuple[str, str], set[str]] = defaultdict(set)
    for name, node in sorted(job.nodes.items()):
        for source, state in sorted(node.sources.items()):
            if state.state in NOT_READ:
                reasons[SOURCE_NAMES.get(source, source), state.why or NOT_READ[state.state]].add(name)
        if node.link not in ("live", "offline"):
            reasons["everything", node.why.replace(name, "NODE") or f"the node is {node.link}"].add(name)
    for status in job_status.of("unseen"):
        doing = status.activity
        if doing is not None and doing.error:
            remedy = f"; {MAY_LOOK}" if doing.error == "denied" else ""
            reasons["stacks", ": ".join(filter(None, (doing.error, doing.detail))) + remedy].add(status.node)
    for name in logs_behind(job_status):
        reasons["logs", "not yet read since the last rank ended: what it wrote is not known"].add(name)
    others: dict[tuple[object, str], list[Rank]] = defaultdict(list)
    ports = {rank.process.master_port for rank in job.ranks}
    for rank in job.others if job.live and job.ranks else ():
        if not left_over(rank, job.others):
            others[rank.process.master_port or "PORT", rank.whole_on].append(rank)
    for (port, alone), ranks in others.items():
        text = f"{count(len(ranks), 'rank')} of another run, not judged ({ranks[0].process.command[:60]})"
        remedy = f"name only {alone} to watch it" if alone and port in ports else f"--job MASTER_PORT={port} chooses it"
        reasons["another job", f"{text}: {remedy}"].update(rank.node for rank in ranks)
    return tuple(Unknown(source, tuple(sorted(nodes - {""})), why) for (source, why), nodes in sorted(reasons.items()))
