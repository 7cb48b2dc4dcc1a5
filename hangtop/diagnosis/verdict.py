"""The verdict over a job: run all rules, put the root cause first, and say in one word how the job is.

``hung``: ranks wait and will not stop waiting. ``crashed``: ranks failed. ``slow``: it moves, and something holds it
back or is broken. ``starting``: its ranks are coming up. ``healthy``: its ranks are there and nothing is wrong.
``idle``: nodes answer, and no rank runs on them. ``unknown``: what was seen does not settle it. Findings about
configuration alone change no word: a healthy job may be badly configured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from hangtop.diagnosis.aftermath import finished, last_words, summary, too_few_answers
from hangtop.diagnosis.case import Case, open_case
from hangtop.diagnosis.failures import failures
from hangtop.diagnosis.finding import Finding, Outcome, Unknown, Verdict
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.ranking import rank_findings
from hangtop.diagnosis.rules import CASE_RULES, RULES
from hangtop.diagnosis.scene import world_size
from hangtop.diagnosis.tables.kinds import BROKEN, CRASHED, HUNG, SLOW
from hangtop.diagnosis.tables.thresholds import START_S
from hangtop.diagnosis.words import count, duration

SOURCE_NAMES = {
    "gpus": "nvidia-smi", "fabric": "InfiniBand ports", "network": "network counters", "kernel": "kernel log",
    "logs": "rank logs", "ranks": "ranks", "host": "host figures", "nvml": "NVML", "ras": "NCCL RAS",
}  # fmt: skip
UNSEEN = {"node_unreachable"}
NOT_READ = {"denied": "not allowed", "late": "gives no answer", "failed": "failed"}


def diagnose(job: Job) -> Verdict:
    """Judge one picture of a job. Pure: the same picture gives the same verdict, whatever the order of its parts."""
    case = open_case(job)
    findings = rank_findings(_found(case))
    outcome = _outcome(case, findings)
    return Verdict(outcome, _summary(case, outcome, findings), findings, _unknown(case))


def _found(case: Case) -> Iterable[Finding]:
    for rule in RULES:
        yield from rule(case.job)
    for case_rule in CASE_RULES:
        yield from case_rule(case)


def _outcome(case: Case, findings: tuple[Finding, ...]) -> Outcome:
    serious = [finding for finding in findings if finding.severity != "info" and not finding.cause]
    critical = {finding.kind for finding in serious if finding.severity == "critical"}
    present = [standing for standing in case.scene.present if standing.stance != "unseen" or standing.process]
    if critical & CRASHED and not (critical & HUNG and not _nearer_crash(serious)):
        return "crashed"
    if critical & HUNG:
        return "hung" if present or not case.job.live else "crashed"  # where nothing runs, nothing waits
    if critical & BROKEN and case.hung:
        return "hung"
    if critical & BROKEN and not case.job.live and ("gpu_lost" in critical or failures(case.job)):
        return "crashed"
    # Of a node that does not answer nobody knows whether it holds anything back: that is no word on the job.
    if any(finding.kind in (SLOW | BROKEN) - UNSEEN for finding in serious) and (present or not case.job.live):
        return "slow"
    if not case.job.live:
        return _after_the_fact(case)
    if not any(node.link in ("live", "limited") for node in case.job.nodes.values()):
        return "unknown"
    return _quiet(case)


def _nearer_crash(serious: list[Finding]) -> bool:
    """The root among critical findings of both sorts is the first one: findings are in order."""
    return next((f.kind in CRASHED for f in serious if f.kind in CRASHED | HUNG and f.severity == "critical"), False)


def _after_the_fact(case: Case) -> Outcome:
    return "healthy" if finished(case.job) else "unknown"


def _ended_unexplained(case: Case) -> bool:
    """Ranks were there, all of them went while they were watched, and nothing tells that they were done."""
    job = case.job
    return bool(job.ranks) and not finished(job)


def _quiet(case: Case) -> Outcome:
    """Nothing is wrong as far as one can see: say how far that is."""
    job, scene = case.job, case.scene
    living = [rank for rank in job.ranks if rank.gone_at is None]
    if not living:
        away = any(node.link not in ("live", "limited") or _blind(node.sources) for node in job.nodes.values())
        return "unknown" if away or _ended_unexplained(case) else "idle"
    young = min(job.now - rank.process.started for rank in living) < START_S
    coming = [s for s in scene.dumped if s.activity and s.activity.kind in ("init", "store")]
    if coming or (young and scene.of("missing")):
        return "starting"
    if case.jam is not None and case.hung and not _explained_wait(case):
        return "unknown"
    if any(node.link not in ("live", "limited") for node in job.nodes.values()):
        return "unknown"
    return "healthy"


def _explained_wait(case: Case) -> bool:
    """The ranks wait for one that visibly works, and not for too long."""
    jam = case.jam
    return jam is not None and bool(jam.culprits) and all(jam.held < case.due(culprit) for culprit in jam.culprits)


def _blind(sources: object) -> bool:
    if not isinstance(sources, dict):
        return False
    ranks = sources.get("ranks")
    return ranks is not None and ranks.state != "ok"


def _summary(case: Case, outcome: Outcome, findings: tuple[Finding, ...]) -> str:
    job = case.job
    last = last_words(job) if job.live else ""
    if findings and outcome in ("hung", "crashed", "slow"):
        over = last and all(rank.gone_at is not None for rank in job.ranks)
        return findings[0].summary + (f" (no rank runs any more; {last.partition(': ')[0]})" if over else "")
    ranks, world = sum(rank.gone_at is None for rank in job.ranks), world_size(job)
    of_world = f" of {world}" if world and world != ranks else ""
    nodes = sum(node.link in ("live", "limited") for node in job.nodes.values())
    seen = f"{count(ranks, 'rank') if not of_world else f'{ranks}{of_world} ranks'} on {count(nodes, 'node')}"
    watched = f", watched for {duration(job.watched)}" if job.watched else ""
    waiting = next((finding.summary for finding in findings if finding.kind == "waiting"), "")
    if outcome == "healthy":
        return f"{seen}{watched}: {waiting or 'nothing is wrong'}" if job.live else summary(case, outcome)
    if outcome == "starting":
        return f"{seen} starting up{watched}"
    if outcome == "unknown" and not ranks and job.ranks and _ended_unexplained(case):
        gone = max(rank.gone_at or 0.0 for rank in job.ranks)
        return (
            f"all {count(len(job.ranks), 'rank')} ended {duration(max(0.0, job.now - gone))} ago while they were "
            f"watched, and nothing that was read says how{f'; {last}' if last else ''}: name their logs "
            "(--log GLOB, hangtop analyze)"
        )
    if outcome == "idle":
        none = f"no rank runs on {count(nodes, 'node')}"
        if last:
            return f"{none}; {last}; for other logs add --log GLOB"
        return f"{none}, and no log was read: if a job ended here, name its logs (--log GLOB, hangtop analyze)"
    serious = [finding.summary for finding in findings if finding.severity != "info"]
    if serious:
        return serious[0]
    return f"{seen}{watched}: what was seen does not settle it" if job.live else summary(case, outcome)


def _unknown(case: Case) -> tuple[Unknown, ...]:
    """List sources that could not be read, the same reason once for all its nodes; and ranks without stacks."""
    reasons: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, node in sorted(case.job.nodes.items()):
        for source, state in sorted(node.sources.items()):
            if state.state in NOT_READ:
                why = state.why or NOT_READ[state.state]
                reasons[SOURCE_NAMES.get(source, source), why].append(name)
        if node.link not in ("live", "limited", "offline"):
            reasons["everything", node.why or f"the node is {node.link}"].append(name)
    for standing in case.scene.of("unseen"):
        doing = standing.activity
        if doing is not None and doing.error:
            reasons["stacks", f"{doing.error}: {doing.said}" if doing.said else doing.error].append(standing.node)
    listed = [Unknown(source, tuple(sorted(set(nodes))), why) for (source, why), nodes in sorted(reasons.items())]
    return (*listed, *(() if case.job.live else too_few_answers(case.job)))
