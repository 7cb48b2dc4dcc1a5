"""What could not be read, or proves nothing though it was read: said with the verdict, never taken for "ok"."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from hangtop.diagnosis.failures.unheard import logs_behind
from hangtop.diagnosis.finding import Unknown
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.verdict.other_jobs import other_jobs
from hangtop.diagnosis.waits.job_status import JobStatus

SOURCE_NAMES = {
    "gpus": "nvidia-smi", "fabric": "InfiniBand ports", "network": "network counters", "kernel": "kernel log",
    "logs": "rank logs", "ranks": "ranks", "host": "host figures", "nvml": "NVML", "ras": "NCCL RAS",
}  # fmt: skip
NOT_READ = {"denied": "not allowed", "late": "gives no answer", "failed": "failed"}


def unread_sources(job_status: JobStatus) -> tuple[Unknown, ...]:
    """List sources that could not be read, the same reason once for all its nodes; and ranks without stacks."""
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
            remedy = f"; {_may_look(job, status.node)}" if doing.error == "denied" else ""
            reasons["stacks", ": ".join(filter(None, (doing.error, doing.said))) + remedy].add(status.node)
    for name in logs_behind(job_status):
        reasons["logs", "not yet read since the last rank ended: what it wrote is not known"].add(name)
    found = [Unknown(source, tuple(sorted(nodes)), why) for (source, why), nodes in sorted(reasons.items())]
    return (*found, *_ras_says_ok(job_status), *(other_jobs(job) if job.live else ()))


def _ras_says_ok(job_status: JobStatus) -> Iterator[Unknown]:
    """NCCL RAS's "OK" while ranks wait: it counts no sends, receives or collectives of CUDA graphs."""
    ras = job_status.job.ras
    last = max(ras, key=lambda look: look.at).value if ras and job_status.hung else None
    if last is not None and last.communicators and all(one.errors == "OK" for one in last.communicators):
        why = "says OK of all communicators though ranks wait: it counts no sends, receives or CUDA graphs"
        yield Unknown("NCCL RAS", (last.node,) if last.node else (), why)


def _may_look(job: Job, name: str) -> str:
    """How stacks may be read on a node where they were refused."""
    hello = job.nodes[name].hello if name in job.nodes else None
    if hello is not None and hello.uid == 0:
        return "root may not either: a container needs --cap-add SYS_PTRACE, or log in on its host"
    return (
        "log in as the ranks' owner or as root, or add --sudo; a container needs SYS_PTRACE (hangtop preflight tells)"
    )
