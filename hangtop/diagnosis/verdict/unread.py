"""What could not be read, or is not judged: said with the verdict, never taken for "ok"."""

from __future__ import annotations

from collections import defaultdict

from hangtop.diagnosis.failures.unheard import logs_behind
from hangtop.diagnosis.finding import Unknown
from hangtop.diagnosis.node import Rank
from hangtop.diagnosis.phrasing import count
from hangtop.diagnosis.rules.left_over import left_over
from hangtop.diagnosis.waits.job_status import JobStatus

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
    """List sources that could not be read, the same reason once for all its nodes; ranks without stacks; other jobs."""
    job = job_status.job
    reasons: dict[tuple[str, str], set[str]] = defaultdict(set)
    for name, node in sorted(job.nodes.items()):
        for source, state in sorted(node.sources.items()):
            if state.state in NOT_READ:
                reasons[SOURCE_NAMES.get(source, source), state.why or NOT_READ[state.state]].add(name)
        if node.link not in ("live", "limited", "offline"):
            reasons["everything", node.why or f"the node is {node.link}"].add(name)
    for status in job_status.of("unseen"):
        doing = status.activity
        if doing is not None and doing.error:
            remedy = f"; {MAY_LOOK}" if doing.error == "denied" else ""
            reasons["stacks", ": ".join(filter(None, (doing.error, doing.said))) + remedy].add(status.node)
    for name in logs_behind(job_status):
        reasons["logs", "not yet read since the last rank ended: what it wrote is not known"].add(name)
    others: dict[object, list[Rank]] = defaultdict(list)
    for one in job.others if job.live and job.ranks else ():
        if not left_over(one, job.others):
            others[one.process.master_port or "PORT"].append(one)
    for port, ranks in others.items():
        told = f"{count(len(ranks), 'rank')} of another run, not judged ({ranks[0].process.command[:60]})"
        reasons["another job", f"{told}: --job MASTER_PORT={port} chooses it"].update(one.node for one in ranks)
    return tuple(Unknown(source, tuple(sorted(nodes - {""})), why) for (source, why), nodes in sorted(reasons.items()))
