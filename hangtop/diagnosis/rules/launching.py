"""Launchers that have started no rank: torchrun waits until all nodes have come, and shows nothing meanwhile."""

from __future__ import annotations

import re
from collections.abc import Iterator

from collectors.samples.ranks import IdleLauncher
from hangtop.diagnosis.finding import Evidence, Finding, next_step
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node_names import nodes_text
from hangtop.diagnosis.phrasing import count, duration
from hangtop.diagnosis.tables.thresholds import START_LONGEST_S
from hangtop.diagnosis.witnesses.failures import failures

_NODES = re.compile(r"--nnodes[= ](\d+)")
TOLD = 4


def launching(job: Job) -> str:
    """Which launchers have started no rank of a job of which none was seen, and for how long; empty without one."""
    idle = _idle(job)
    if not idle:
        return ""
    nodes = sorted({node for node, _ in idle})
    long = duration(max(0.0, job.now - max(one.started for _, one in idle)))
    return f"torchrun has started no rank on {nodes_text(nodes)} for {long}{_wanted(idle)}"


def no_rank_started(job: Job) -> Iterator[Finding]:
    """init_hang by launchers: for longer than a start takes torchrun runs, and no rank does on any node.

    Needs the processes of the job's nodes; says nothing of a job some ranks of which were seen, or that failed.
    """
    idle = _idle(job)
    if not idle or job.now - max(one.started for _, one in idle) < START_LONGEST_S:
        return
    nodes = tuple(sorted({node for node, _ in idle}))
    yield Finding(
        "init_hang", "critical", 0.75, launching(job),
        nodes=nodes,
        evidence=tuple(
            Evidence(f"process {one.pid} on {node}", job.now, f"{one.command}, for {duration(job.now - one.started)}")
            for node, one in idle[:TOLD]
        ),
        advice="Start it on the nodes that are missing, with the same rendezvous (--rdzv-endpoint or --master-addr and "
        "port, --rdzv-id), and look whether they reach it: it waits for --nnodes of them.",
        next=(next_step("m", "probe", "path", *nodes),) if len(nodes) > 1 else (),
    )  # fmt: skip


def _idle(job: Job) -> list[tuple[str, IdleLauncher]]:
    if not job.live or job.ranks:
        return []
    idle = [(name, one) for name, node in sorted(job.nodes.items()) for one in node.launchers]
    began = min((one.started for _, one in idle), default=job.now)
    # what a kernel told before that is of another run
    return [] if any(failure.at is None or failure.at >= began for failure in failures(job)) else idle


def _wanted(idle: list[tuple[str, IdleLauncher]]) -> str:
    """How many nodes it waits for, where it says so and more of them than those on which it runs."""
    asked = [int(found.group(1)) for _, one in idle if (found := _NODES.search(one.command))]
    here = len({node for node, _ in idle})
    return f": it waits for {count(max(asked), 'node')} and runs on {here}" if asked and max(asked) > here else ""
