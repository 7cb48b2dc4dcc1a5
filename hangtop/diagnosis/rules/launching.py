"""Launchers that have started no rank: torchrun waits until all nodes have come, and shows nothing meanwhile."""

from __future__ import annotations

import re
from collections.abc import Iterator

from collectors.samples.ranks import IdleLauncher
from hangtop.diagnosis.failures.record import failures
from hangtop.diagnosis.finding import Evidence, Finding, next_step
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node_names import nodes_text
from hangtop.diagnosis.phrasing import count, duration
from hangtop.diagnosis.tables.thresholds import START_LONGEST_S

_NODES = re.compile(r"--nnodes[= ](\d+)")
TOLD = 4
AGAIN_S = 10.0
"""Ours: a launcher that starts its ranks anew, or ends with them, has done so by then."""


def launching(job: Job) -> str:
    """Which launchers have started no rank of a job of which none was seen, and for how long; empty without one."""
    idle = _idle(job)
    if not idle:
        return ""
    nodes = sorted({node for node, _ in idle})
    long = duration(max(0.0, job.now - _alone_since(idle)))
    if any(one.since is not None for _, one in idle):
        return (
            f"torchrun has had no rank on {nodes_text(nodes)} for {long} at least: those that it had started have ended"
            f"{_wanted(idle).replace(':', ';', 1)}"
        )
    return f"torchrun has started no rank on {nodes_text(nodes)} for {long}{_wanted(idle)}"


def no_rank_started(job: Job) -> Iterator[Finding]:
    """init_hang by launchers: for longer than a start takes torchrun runs, and no rank does on any node.

    Needs the processes of the job's nodes; says nothing of a job some ranks of which were seen, or that failed.
    """
    idle = _idle(job)
    if not idle or job.now - _alone_since(idle) < START_LONGEST_S:
        return
    nodes = tuple(sorted({node for node, _ in idle}))
    yield Finding(
        "init_hang", "critical", 0.75, launching(job),
        nodes=nodes,
        evidence=tuple(_seen(job, node, one) for node, one in idle[:TOLD]),
        advice="Start it on the nodes that are missing, with the same rendezvous (--rdzv-endpoint or --master-addr and "
        "port, --rdzv-id), and look whether they reach it: it waits for --nnodes of them.",
        next=(next_step("P", "probe", "path", *nodes),) if len(nodes) > 1 else (),
    )  # fmt: skip


def not_started_again(job: Job) -> Iterator[Finding]:
    """job_restarts: all ranks have ended, and a launcher that was there before starts none anew: it waits for others.

    Needs the processes of all of the job's nodes, and that they were seen to end. A warning once it has taken longer
    than a start.
    """
    ended = [rank.gone_at for rank in job.ranks if rank.gone_at is not None]
    if not job.live or not ended or len(ended) < len(job.ranks):
        return
    since, used = max(ended), {rank.node for rank in job.ranks}
    if any(job.nodes[name].link != "live" for name in used if name in job.nodes):
        return
    idle = [(name, one) for name, one in _launchers(job) if name in used and one.started < since]
    if not idle or job.now - since < AGAIN_S:
        return
    nodes = sorted({name for name, _ in idle})
    without = sorted(used.difference(nodes))
    lacks = f"; none is left on {nodes_text(without)}" if without else ""
    yield Finding(
        "job_restarts", "warning" if job.now - since >= START_LONGEST_S else "info", 0.8,
        f"torchrun still runs on {nodes_text(nodes)} and has started no rank anew since all ended "
        f"{duration(job.now - since)} ago{_wanted(idle)}{lacks}",
        nodes=tuple(without or nodes),
        evidence=tuple(_seen(job, node, one) for node, one in idle[:TOLD]),
        advice="It waits at its rendezvous for the others. Start it where it is missing, with the same --rdzv-id and "
        "endpoint, or end it everywhere and start the job again.",
    )  # fmt: skip


def _launchers(job: Job) -> list[tuple[str, IdleLauncher]]:
    return [(name, one) for name, node in sorted(job.nodes.items()) for one in node.launchers]


def _seen(job: Job, node: str, one: IdleLauncher) -> Evidence:
    return Evidence(f"process {one.pid} on {node}", job.now, f"{one.command}, for {duration(job.now - one.started)}")


def _alone_since(idle: list[tuple[str, IdleLauncher]]) -> float:
    """Since when none of them has a rank, as far as it is known: one that had some is older than that."""
    return max(one.started if one.since is None else one.since for _, one in idle)


def _idle(job: Job) -> list[tuple[str, IdleLauncher]]:
    if not job.live or job.ranks:
        return []
    idle = _launchers(job)
    began = min((one.started for _, one in idle), default=job.now)
    # what a kernel told before that is of another run
    return [] if any(failure.at is None or failure.at >= began for failure in failures(job)) else idle


def _wanted(idle: list[tuple[str, IdleLauncher]]) -> str:
    """How many nodes it waits for, where it says so and more of them than those on which it runs."""
    asked = [int(found.group(1)) for _, one in idle if (found := _NODES.search(one.command))]
    here = len({node for node, _ in idle})
    return f": it waits for {count(max(asked), 'node')} and runs on {here}" if asked and max(asked) > here else ""
