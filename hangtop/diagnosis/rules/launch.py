"""Launchers that have started no rank, or that start all ranks anew: torchrun's agents, by their processes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from collectors.samples.ranks import IdleLauncher
from hangtop.diagnosis.evidence.events import event_line
from hangtop.diagnosis.failures.record import failures, failures_before_restart
from hangtop.diagnosis.finding import Evidence, Finding, next_step
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node_names import nodes_text
from hangtop.diagnosis.phrasing import count, duration, who
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.rules.crash import file_advice
from hangtop.diagnosis.tables.thresholds import START_LONGEST_S

_NODES = re.compile(r"--nnodes[= ](\d+)")
TOLD = 4
AGAIN_S = 10.0
"""Ours: a launcher that starts its ranks anew, or ends with them, has done so by then."""
MANY_STARTS = 2
"""Starts after the first that make a row of them: one may be a node that was taken in, or out."""

Idle = Sequence[tuple[str, IdleLauncher]]
"""Launchers without a rank, each with its node."""


def _launchers(job: Job) -> Idle:
    return [(name, one) for name, node in sorted(job.nodes.items()) for one in node.launchers]


def _idle(job: Job) -> Idle:
    """Launchers of a job of which no rank was seen, and that did not fail since they began."""
    idle = _launchers(job) if job.live and not job.ranks else []
    began = min((one.started for _, one in idle), default=job.now)
    return [] if any(failure.at is None or failure.at >= began for failure in failures(job)) else idle


def _alone_since(idle: Idle) -> float:
    return max(one.started if one.since is None else one.since for _, one in idle)


def launching(job: Job) -> str:
    """Which launchers have no rank, and for how long, of a job of which none was seen; empty without one."""
    idle = _idle(job)
    if not idle:
        return ""
    nodes, long = nodes_text(sorted({node for node, _ in idle})), duration(max(0.0, job.now - _alone_since(idle)))
    if all(one.since is None for _, one in idle):
        return f"torchrun has started no rank on {nodes} for {long}{_wanted(idle)}"
    return (
        f"torchrun has had no rank on {nodes} for {long} at least: those that it had started have ended"
        f"{_wanted(idle).replace(':', ';', 1)}"
    )


def no_rank_started(job: Job) -> Iterator[Finding]:
    """init_hang by launchers: for longer than a start takes torchrun runs, and no rank does on any node.

    Needs the processes of the job's nodes; says nothing of a job some ranks of which were seen, or that failed.
    """
    idle = _idle(job)
    if not idle or job.now - _alone_since(idle) < START_LONGEST_S:
        return
    nodes = tuple(sorted({node for node, _ in idle}))
    yield Finding(
        "init_hang", "critical", 0.75, launching(job), nodes=nodes, evidence=_seen(job, idle),
        advice="Start it on the nodes that are missing, with the same rendezvous (--rdzv-endpoint or --master-addr and "
        "port, --rdzv-id), and look whether they reach it: it waits for --nnodes of them.",
        next=(next_step("P", "probe", "path", *nodes),) if len(nodes) > 1 else (),
    )  # fmt: skip


def not_started_again(job: Job) -> Iterator[Finding]:
    """job_restarts: all ranks have ended, and a launcher that was there before starts none anew: it waits for others.

    Needs the processes of all of the job's nodes, and that the ranks were seen to end. A warning once it has taken
    longer than a start.
    """
    ended = [rank.gone_at for rank in job.ranks if rank.gone_at is not None]
    if not job.live or not ended or len(ended) < len(job.ranks):
        return
    since, used = max(ended), {rank.node for rank in job.ranks}
    idle = [(name, one) for name, one in _launchers(job) if name in used and one.started < since]
    hidden = any(job.nodes[name].link != "live" for name in used if name in job.nodes)
    if not idle or hidden or job.now - since < AGAIN_S:
        return
    nodes = sorted({name for name, _ in idle})
    without = sorted(used.difference(nodes))
    lacks = f"; none is left on {nodes_text(without)}" if without else ""
    yield Finding(
        "job_restarts", "warning" if job.now - since >= START_LONGEST_S else "info", 0.8,
        f"torchrun still runs on {nodes_text(nodes)} and has started no rank anew since all ended "
        f"{duration(job.now - since)} ago{_wanted(idle)}{lacks}",
        nodes=tuple(without or nodes), evidence=_seen(job, idle),
        advice="It waits at its rendezvous for the others. Start it where it is missing, with the same --rdzv-id and "
        "endpoint, or end it everywhere and start the job again.",
    )  # fmt: skip


def _seen(job: Job, idle: Idle) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(f"process {one.pid} on {node}", job.now, f"{one.command}, for {duration(job.now - one.started)}")
        for node, one in idle[:TOLD]
    )


def _wanted(idle: Idle) -> str:
    """How many nodes torchrun waits for, where its command says so and more of them than those on which it runs."""
    asked = max((int(found.group(1)) for _, one in idle if (found := _NODES.search(one.command))), default=0)
    here = len({node for node, _ in idle})
    return f": it waits for {count(asked, 'node')} and runs on {here}" if asked > here else ""


def started_anew(job: Job) -> Iterator[Finding]:
    """job_restarts: the launcher has started the ranks anew, and what ended the starts before.

    Needs the launcher's count in the environment of the ranks (TORCHELASTIC_RESTART_COUNT), and logs for the reason.
    Critical from the second time on while no step was counted since the last; information once steps are.
    """
    living = [rank for rank in job.ranks if rank.gone_at is None] or list(job.ranks)
    times = max((rank.process.restart or 0 for rank in living), default=0)
    if not times or not job.live:
        return
    begun = min(rank.process.started for rank in living)
    stepped = job.motion.last_step_at is not None and job.motion.last_step_at > begun
    roots = [failure for failure in failures_before_restart(job) if not failure.consequence]
    first = next((failure for failure in roots if not failure.bare), roots[0] if roots else None)
    ranks = () if first is None or first.rank is None else (first.rank,)
    why = refused = ""
    if first is not None:
        why = f"; {who(ranks)} had failed first: {first.what}{f' at {first.frame}' if first.frame else ''}"
        refused = file_advice(first.what)
    yield Finding(
        "job_restarts", "critical" if times >= MANY_STARTS and not stepped else "info", 0.85 if first else 0.6,
        f"the ranks were started anew {count(times, 'time')}, {duration(max(0.0, job.now - begun))} ago the last{why}",
        ranks=ranks, nodes=homes(job, ranks),
        evidence=(
            *((event_line(first.event),) if first else ()),
            Evidence("environment of the ranks", begun, f"TORCHELASTIC_RESTART_COUNT={times}"),
        ),
        advice=f"{refused or 'Mend what ended the first start.'} The launcher tries again until its attempts are used "
        "up (torchrun --max-restarts).",
    )  # fmt: skip
