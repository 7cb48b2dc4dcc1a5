"""The verdict over a job: run all rules, put the root cause first, and say in one word how the job is.

``hung``: ranks wait and will not stop waiting. ``crashed``: ranks failed. ``at_risk``: hardware under a job that moves
is broken. ``slow``: it moves, and something holds it back. ``starting``: its ranks are coming up. ``healthy``: it is
seen to move, and nothing is wrong. ``idle``: nodes answer, no rank runs on them, no GPU is in use and no log goes on.
``unknown``: what was seen does not settle it; that nothing is known to be wrong is no proof of health. Findings about
configuration alone change no word: a healthy job may be badly configured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from hangtop.diagnosis.failures.record import failures
from hangtop.diagnosis.failures.unheard import logs_behind
from hangtop.diagnosis.finding import Finding, Outcome, Unknown, Verdict
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, duration, listed
from hangtop.diagnosis.roster import blind, out_of_sight, world_size
from hangtop.diagnosis.rules import RULES, STATUS_RULES
from hangtop.diagnosis.rules.launch import launching
from hangtop.diagnosis.rules.slow_gpu import slowness_judged
from hangtop.diagnosis.rules.stalled import job_stalled, standing
from hangtop.diagnosis.rules.stuck import begun, coming_up
from hangtop.diagnosis.tables.kinds import word_of
from hangtop.diagnosis.tables.thresholds import IDLE_UTILIZATION, START_LONGEST_S, START_S
from hangtop.diagnosis.verdict.aftermath import finished, last_words, summary, too_few_answers
from hangtop.diagnosis.verdict.chain import wait_boxes
from hangtop.diagnosis.verdict.drain import with_drain
from hangtop.diagnosis.verdict.on_gpus import with_gpus
from hangtop.diagnosis.verdict.other_jobs import beside, other_jobs
from hangtop.diagnosis.verdict.quiet import ended_alone, gone_quiet
from hangtop.diagnosis.verdict.ranking import rank_findings
from hangtop.diagnosis.verdict.survived import held_up_alive, with_survived
from hangtop.diagnosis.verdict.way_in import told_way_in, with_way_in
from hangtop.diagnosis.verdict.whereabouts import with_whereabouts
from hangtop.diagnosis.waits.job_status import JobStatus, status_of_job
from hangtop.diagnosis.waits.points import standing_at
from hangtop.diagnosis.yielding import give_way

SOURCE_NAMES = {
    "gpus": "nvidia-smi", "fabric": "InfiniBand ports", "network": "network counters", "kernel": "kernel log",
    "logs": "rank logs", "ranks": "ranks", "host": "host figures", "nvml": "NVML", "ras": "NCCL RAS",
}  # fmt: skip
ELSEWHERE = "for others: hangtop NODE…, hangtop --slurm JOBID"
UNSEEN = {"node_unreachable"}
BLINDING = {"ptrace_denied", "node_limited", "job_queued"}
"""Kinds that are no word on the job, and say why there is none."""
ENDED_BY_WATCHDOG = {"watchdog_timeout"}
FATAL = {"gpu_lost", "gpu_xid", "gpu_ecc", "gpu_driver_hung", "node_unreachable"}
"""What is broken and ends the ranks that use it."""
BLOCKING = {"storage_stalled", "kernel_trouble"}
"""What is broken and lets ranks wait."""
TRAINING = {"collective", "p2p", "device", "backward", "forward", "evaluation", "checkpoint"}
"""What a rank is met in once it has begun to train."""
NOT_READ = {"denied": "not allowed", "late": "gives no answer", "failed": "failed"}


def diagnose(job: Job) -> Verdict:
    """Judge one picture of a job. Pure: the same picture gives the same verdict, whatever the order of its parts."""
    job_status = status_of_job(job)
    found = with_survived(job_status, _found(job_status))
    give_way()
    found += job_stalled(job_status, found)
    findings = rank_findings(found)
    findings = with_gpus(job, with_whereabouts(job, with_way_in(job_status, with_drain(job, findings))))
    give_way()
    outcome = _outcome(job_status, findings)
    give_way()
    waits = wait_boxes(job_status, findings) if outcome in ("hung", "waiting") else ()
    said, place = _summary(job_status, outcome, findings), standing_at(job_status.graph)
    return Verdict(outcome, said, findings, _unknown(job_status), waits, place)


def _found(job_status: JobStatus) -> Iterable[Finding]:
    for rule in RULES:
        give_way()
        yield from rule(job_status.job)
    for status_rule in STATUS_RULES:
        give_way()
        yield from status_rule(job_status)


def _outcome(job_status: JobStatus, findings: tuple[Finding, ...]) -> Outcome:
    job = job_status.job
    critical = [finding for finding in findings if finding.severity == "critical"]
    roots = [finding for finding in critical if not finding.cause]
    hung = [finding for finding in roots if word_of(finding.kind) == "hung"]
    crashed = [finding for finding in roots if word_of(finding.kind) == "crashed"]
    if not job.live and {finding.kind for finding in crashed} == ENDED_BY_WATCHDOG:
        return "hung"  # and ended so: nobody failed by itself
    present = any(status.state != "unseen" or status.process for status in job_status.present)
    if crashed and all(held_up_alive(job_status, finding) for finding in crashed):
        return "hung"
    if crashed and not (hung and roots.index(hung[0]) < roots.index(crashed[0])):
        return "crashed"
    if hung:
        runs = present or launching(job)
        return "hung" if runs or not job.live else "crashed"  # where nothing runs, nothing waits
    return _unfailed(job_status, findings, roots, present=present)


def _unfailed(job_status: JobStatus, findings: tuple[Finding, ...], roots: list[Finding], *, present: bool) -> Outcome:
    """The outcome where nothing proves a hang or a crash by itself."""
    job = job_status.job
    critical = [finding for finding in findings if finding.severity == "critical"]
    broken = {finding.kind for finding in roots if word_of(finding.kind) in ("at_risk", "slow")}
    # a broken part that explains why ranks wait: the wait is its consequence, and the job hangs
    waits = any(finding.cause and word_of(finding.kind) == "hung" for finding in critical)
    waits |= any(finding.kind == "waiting" and finding.cause in FATAL - UNSEEN for finding in findings)
    if broken and (job_status.hung or waits) and present:
        return "hung"
    if broken and not job.live and (broken & FATAL or failures(job)):
        return "crashed"
    if broken & BLOCKING and not job.live:
        return "hung"
    if _starts(job_status):
        return "starting"
    # Of a node that does not answer nobody knows whether it holds anything back: that is no word on the job.
    words = {word_of(f.kind) for f in findings if f.severity != "info" and not f.cause and f.kind not in UNSEEN}
    for word in ("at_risk", "waiting", "slow"):
        if word in words and (present or not job.live):
            return word
    if not job.live:
        return _after_the_fact(job_status)
    if not any(node.link in ("live", "limited") for node in job.nodes.values()):
        return "unknown"
    return _quiet(job_status)


def _starts(job_status: JobStatus) -> bool:
    """Ranks wait to start for one that is at work or may yet come, and a start may take that long."""
    living = [rank for rank in job_status.job.ranks if rank.gone_at is None]
    if not job_status.job.live or not living or job_status.graph is None or not coming_up(job_status.graph):
        return False
    return job_status.job.now - min(rank.process.started for rank in living) < START_LONGEST_S


def _after_the_fact(job_status: JobStatus) -> Outcome:
    return "healthy" if finished(job_status.job) else "unknown"


def _ended_unexplained(job_status: JobStatus) -> bool:
    """Ranks were there, all of them went while they were watched, and nothing tells that they were done."""
    job = job_status.job
    return bool(job.ranks) and not finished(job)


def _quiet(job_status: JobStatus) -> Outcome:
    """Nothing is wrong as far as one can see: say how far that is.

    Who waits at a store while another rank's GPU computes is in no start: ranks take turns by it.
    """
    job = job_status.job
    living = [rank for rank in job.ranks if rank.gone_at is None]
    if not living:
        away = any(node.link not in ("live", "limited") or blind(node) for node in job.nodes.values())
        if launching(job) and not away:
            return "starting"
        runs = gpus_in_use(job) or (job.motion.moving and not job.ranks)  # somewhere, whoever does it
        return "unknown" if away or runs or _ended_unexplained(job_status) else "idle"
    age = min(job.now - rank.process.started for rank in living)
    leaves = all(one.state == "leaving" for one in job_status.present)
    unseen = any(out_of_sight(job, name) for name in job.nodes)
    lost = unseen or any(node.link in ("stale", "lost") for node in job.nodes.values())
    starts = ("init",) if any(one.load == "computing" for one in job_status.present) else ("init", "store")
    coming = any(s.activity and s.activity.kind in starts for s in job_status.read)
    comes = coming and age < START_LONGEST_S and not (job_status.graph and begun(job_status.of("waiting")))
    early = age < START_LONGEST_S and not _has_trained(job_status)
    begins = comes or (not leaves and (early or (age < START_S and job_status.of("missing"))))
    if begins and not lost:
        return "starting"
    if unseen or any(node.link not in ("live", "limited") for node in job.nodes.values()):
        return "unknown"  # of ranks that nobody sees nobody knows how they are, whatever moves elsewhere
    return "healthy" if proof_of_motion(job_status) and not ended_alone(job_status) else "unknown"


def _has_trained(job_status: JobStatus) -> bool:
    """Whether a step, a collective or work of a GPU that a rank holds was seen: a job that imports moves, too."""
    job = job_status.job
    if job.motion.last_step is not None or job.progress or job.recorders:
        return True
    if any(rank.inside is not None and rank.inside.pulse.step is not None for rank in job.ranks):
        return True
    kinds = {reading.kind for status in job_status.read for reading in status.readings}
    return bool(kinds & TRAINING) or any(status.load in ("computing", "spinning") for status in job_status.present)


def proof_of_motion(job_status: JobStatus) -> str:
    """What proves that the job moves, for people; empty where nothing does.

    Cores in use alone prove nothing: a rank that waits in NCCL spins. A rank that works and is met at other lines
    moves.
    """
    job = job_status.job
    if job.motion.moving:
        return job.motion.proof
    computing = [one.rank for one in job_status.statuses.values() if one.load == "computing"]
    if computing:
        return f"{count(len(computing), 'GPU')} {'computes' if len(computing) == 1 else 'compute'}"
    moving = (one for one in job_status.statuses.values() if one.activity is not None and one.activity.moving)
    working = [one for one in moving if job_status.works(one)]
    if working:
        return f"rank {working[0].rank} works: {working[0].where}"
    return ""


def gpus_in_use(job: Job) -> int:
    """GPUs that a process keeps busy or holds memory of, on nodes on which no rank is known."""
    return sum(
        bool(gpu.processes) and bool(gpu.looks) and (gpu.looks[-1].value.utilization or 0) > IDLE_UTILIZATION
        for node in job.nodes.values()
        for gpu in node.gpus
    )


def _summary(job_status: JobStatus, outcome: Outcome, findings: tuple[Finding, ...]) -> str:
    job = job_status.job
    last = last_words(job) if job.live else ""
    if findings and outcome in ("hung", "crashed", "at_risk", "waiting", "slow"):
        over = last and all(rank.gone_at is not None for rank in job.ranks)
        return findings[0].summary + (f" (no rank runs any more; {last.partition(': ')[0]})" if over else "")
    ranks, world = sum(rank.gone_at is None for rank in job.ranks), world_size(job)
    of_world = f" of {world}" if world and world != ranks else ""
    # one that is not heard just now still has its ranks
    having = {rank.node for rank in job.ranks if rank.gone_at is None}
    nodes = sum(node.link in ("live", "limited") or node.name in having for node in job.nodes.values())
    seen = f"{count(ranks, 'rank') if not of_world else f'{ranks:,}{of_world} ranks'} on {count(nodes, 'node')}"
    watched = f", watched for {duration(job.watched)}" if job.watched else ""
    waiting = next((finding.summary for finding in findings if finding.kind == "waiting"), "")
    if outcome == "healthy":
        if not job.live:
            return summary(job_status, outcome)
        not_yet = "; whether a rank is slow is not judged yet" if ranks > 1 and not slowness_judged(job_status) else ""
        others = beside(job)
        return f"{seen}{watched}: {waiting or 'nothing is wrong'} ({proof_of_motion(job_status)}){not_yet}{others}"
    if outcome == "starting":
        return f"{seen} starting up{watched}{f': {waiting}' if waiting else ''}" if ranks else launching(job)
    if outcome == "unknown" and not ranks and job.ranks and _ended_unexplained(job_status):
        gone = max(rank.gone_at or 0.0 for rank in job.ranks)
        return (
            f"all {count(len(job.ranks), 'rank')} ended {duration(max(0.0, job.now - gone))} ago while they were "
            f"watched, and nothing that was read says how{f'; {last}' if last else ''}: name their logs "
            "(--log GLOB, hangtop analyze)"
        )
    if outcome == "idle":
        none = f"no rank runs on {'this machine' if job.unasked else count(nodes, 'node')}"
        none += f" ({ELSEWHERE})" if job.unasked else ""
        if last:
            return f"{none}; {last}; for other logs add --log GLOB"
        return f"{none}, and no log was read: if a job ended here, name its logs (--log GLOB, hangtop analyze)"
    serious = [finding for finding in findings if finding.severity != "info" and (not ranks or _blinds(finding))]
    if said := _with_others_alike(serious) or _unanswered(job):
        return said
    if not job.live:
        return summary(job_status, outcome)
    used = gpus_in_use(job)
    if not ranks and used:
        return f"no rank is known on {count(nodes, 'node')}; GPUs in use there: {used}"
    if not job.ranks and job.motion.moving:
        return f"no rank is known on {count(nodes, 'node')}, but a log goes on: {job.motion.proof}"
    nothing = "nothing was seen to move and nothing is known to be wrong"
    still = ended_alone(job_status) or waiting or standing(job_status) or gone_quiet(job) or nothing
    return f"{seen}{watched}: {still}{_would_settle(job_status)}"


def _blinds(finding: Finding) -> bool:
    """It is a reason for which nothing is known of ranks that are alive: a setting that could be better is none."""
    return word_of(finding.kind) != "none" or finding.kind in BLINDING


def _with_others_alike(findings: Sequence[Finding]) -> str:
    """The first one's summary, after how many nodes have the same; empty where there is none."""
    if not findings:
        return ""
    first = findings[0]
    others = {node for finding in findings if finding.kind == first.kind for node in finding.nodes} - {*first.nodes}
    alike = f"{count(len({*others, *first.nodes}), 'node')} alike: " if first.nodes and others else ""
    return alike + first.summary  # of a long list the number must not be what a narrow line cuts off


def _unanswered(job: Job) -> str:
    """What to say where every node of a live job is only connecting, as at the begin of a recording."""
    if not (job.live and job.nodes and all(node.link == "connecting" for node in job.nodes.values())):
        return ""
    whole = len(job.nodes)
    return "the node has not answered yet" if whole == 1 else f"none of {whole:,} nodes has answered yet"


def _would_settle(job_status: JobStatus) -> str:
    """What would tell a job that computes quietly from one that stands still."""
    graph = job_status.graph
    if graph is not None and graph.held < job_status.alarm_after:
        waiting = count(len(graph.waiters or graph.culprits), "rank")
        return f"; {waiting} began to wait {duration(graph.held)} ago: watch on"
    missing = [
        *(("the ranks' stacks",) if job_status.of("unseen") else ()),
        *(("GPU figures",) if all(one.load == "unknown" for one in job_status.present) else ()),
        *(("a log that counts steps",) if job_status.job.motion.last_step is None else ()),
    ]
    return f"; {listed(missing)} would tell, or watching for longer" if missing else "; watching for longer would tell"


def _unknown(job_status: JobStatus) -> tuple[Unknown, ...]:
    """List sources that could not be read, the same reason once for all its nodes; and ranks without stacks."""
    reasons: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, node in sorted(job_status.job.nodes.items()):
        for source, state in sorted(node.sources.items()):
            if state.state in NOT_READ:
                why = state.why or NOT_READ[state.state]
                reasons[SOURCE_NAMES.get(source, source), why].append(name)
        if node.link not in ("live", "limited", "offline"):
            reasons["everything", node.why or f"the node is {node.link}"].append(name)
    for status in job_status.of("unseen"):
        doing = status.activity
        if doing is not None and doing.error:
            reasons["stacks", f"{doing.error}: {doing.said}" if doing.said else doing.error].append(status.node)
    for name in logs_behind(job_status):
        reasons["logs", "not yet read since the last rank ended: what it wrote is not known"].append(name)
    listed = [Unknown(source, tuple(sorted(set(nodes))), why) for (source, why), nodes in sorted(reasons.items())]
    listed = [told_way_in(job_status.job, one) for one in listed]
    beside = other_jobs(job_status.job) if job_status.job.live else too_few_answers(job_status.job)
    return (*listed, *beside)
