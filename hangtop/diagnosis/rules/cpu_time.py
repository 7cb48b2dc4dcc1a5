"""A rank that does not get the CPU that it wants, while the others get theirs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from collectors.samples.ranks import CpuWait
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.job import Job, Rank
from hangtop.diagnosis.peers import median_without
from hangtop.diagnosis.phrasing import ranks_on, ranks_text
from hangtop.diagnosis.tables.thresholds import CPU_CROWDED, CPU_PEERS_SHARE, CPU_WAITED_SHARE

SOURCE = "cpus"
_PART = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")


class _Reason(NamedTuple):
    """What keeps a rank from a CPU."""

    text: str
    advice: str


def cpu_starved(job: Job) -> Iterator[Finding]:
    """cpu_starved: a rank is ready to run and has no CPU for a large part of the time, the others are not; and why.

    Needs schedstat of the kernel, others that get their CPU, and a reason that holds for this rank: a nice value, CPUs
    that it shares with more ranks than there are, or a node with more to do than it has CPUs while other nodes have
    not.
    """
    if not any(rank.cpu_wait for rank in job.ranks):
        return
    known = [rank for rank in job.ranks if rank.rank >= 0 and rank.gone_at is None and _is_told(job, rank)]
    late = [rank for rank in known if _is_late(rank)]
    rest = [rank for rank in known if not _is_late(rank)]
    if not late or len(late) > len(rest):
        return
    usual = median(rank.waited_for_cpu for rank in rest)
    usual_nice = min((rank.cpu_wait.nice for rank in rest if rank.cpu_wait), default=None)
    told: dict[tuple[str, _Reason], list[Rank]] = defaultdict(list)
    on: dict[str, list[Rank]] = defaultdict(list)
    for rank in late:
        on[rank.node].append(rank)
    for rank in late:
        reason = (
            _reason(job, rank, on[rank.node], usual_nice) if rank.waited_for_cpu >= CPU_PEERS_SHARE * usual else None
        )
        if reason is not None:
            told[rank.node, reason].append(rank)
    for (node, reason), ranks in told.items():
        numbers = tuple(sorted(rank.rank for rank in ranks))
        yield Finding(
            "cpu_starved", "warning", 0.8,
            f"{ranks_on(numbers, (node,))} {_waits(ranks)} for a CPU, the others {usual:.0f}%: "
            f"{reason.text}",
            ranks=numbers, nodes=(node,),
            evidence=tuple(_seen(job, rank) for rank in ranks[:4]),
            advice=reason.advice,
        )  # fmt: skip


def _is_late(rank: Rank) -> bool:
    return rank.waited_for_cpu >= CPU_WAITED_SHARE


def _is_told(job: Job, rank: Rank) -> bool:
    """Its node is there, and its kernel counts."""
    node = job.nodes.get(rank.node)
    source = node.sources.get(SOURCE) if node is not None and node.link in ("live", "limited") else None
    return source is not None and source.state == "ok"


def _reason(job: Job, rank: Rank, late: Sequence[Rank], usual_nice: int | None) -> _Reason | None:
    """Why this one waits, of those that are ``late`` on its node; ``usual_nice`` is None where no other one is told of.

    A whole job may be started at a nice value that is not 0.
    """
    wait = rank.cpu_wait
    if wait is None:
        return None
    if usual_nice is not None and wait.nice > usual_nice:
        return _Reason(
            f"nice {wait.nice}, so that others on the node run first",
            "Start all ranks with one nice value, and look at what else runs on that node.",
        )
    return _shared(wait, late) or _crowded(job, rank.node)


def _shared(wait: CpuWait, late: Sequence[Rank]) -> _Reason | None:
    """It is bound to one CPU, or to fewer than there are starved ranks that are bound to the same."""
    beside = [one for one in late if one.cpu_wait and one.cpu_wait.allowed == wait.allowed]
    cpus = cpus_of(wait.allowed)
    if cpus is None or cpus >= max(2, len(beside)):
        return None
    only = f"on CPU {wait.allowed} alone" if cpus == 1 else f"on {cpus} CPUs ({wait.allowed})"
    return _Reason(
        f"{ranks_text(one.rank for one in beside)} may run {only}",
        "Give each rank CPUs of its own: Slurm's --cpus-per-task and --cpu-bind, numactl, taskset or the launcher's "
        "binding; the workers of a loader inherit them.",
    )


def _crowded(job: Job, name: str) -> _Reason | None:
    """More runs on its node than there are CPUs, far more for each of them than on the other nodes."""
    node, loads = job.nodes[name], job.once(_loads)
    if node.load is None or node.host is None or len(loads) < 2:
        return None
    own = node.load.load / node.host.cpus
    others = median_without(loads, own)
    if own < CPU_CROWDED or own < CPU_PEERS_SHARE * others:
        return None
    return _Reason(
        f"{node.load.load:.0f} tasks want to run on {name}'s {node.host.cpus} CPUs, {own:.1f} a CPU; "
        f"on the other nodes {others:.1f}",
        "Look at what else runs there: another job, what an earlier one left, a daemon (top, hangtop repair list).",
    )


def _loads(job: Job) -> list[float]:
    """Tasks that want to run for each CPU, of each node that tells, in order."""
    return sorted(node.load.load / node.host.cpus for node in job.nodes.values() if node.load and node.host)


def cpus_of(allowed: str) -> int | None:
    """How many CPUs a list of the kernel's holds (``0-15,32``); None for one that is torn."""
    total = 0
    for part in allowed.split(","):
        found = _PART.fullmatch(part)
        if found is None:
            return None
        first, last = int(found[1]), int(found[2] or found[1])
        total += last - first + 1
    return total if total > 0 else None


def _waits(ranks: Sequence[Rank]) -> str:
    """``waits 70% of the time``, ``wait 60 to 70% of the time``."""
    shares = sorted(rank.waited_for_cpu for rank in ranks)
    share = f"{shares[0]}%" if shares[0] == shares[-1] else f"{shares[0]} to {shares[-1]}%"
    return f"{'waits' if len(ranks) == 1 else 'wait'} {share} of the time"


def _seen(job: Job, rank: Rank) -> Evidence:
    wait = rank.cpu_wait
    assert wait is not None
    return Evidence(
        f"/proc/{rank.process.pid}/schedstat on {rank.node}", job.nodes[rank.node].seen_at or job.now,
        f"{ranks_text((rank.rank,))}: ready without a CPU for {wait.waited}% of the last 12 s; may run on CPUs "
        f"{wait.allowed}, nice {wait.nice}",
    )  # fmt: skip
