"""A job that does not come up: launchers without ranks, ranks that wait to start, communicators that never complete."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from collectors.samples.ranks import IdleLauncher
from hangtop.diagnosis.evidence.event_fields import number_of, text_of
from hangtop.diagnosis.evidence.events import event_line, lines, said
from hangtop.diagnosis.failures.record import failures, failures_before_restart
from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node_names import nodes_text
from hangtop.diagnosis.phrasing import count, duration, of_several, ranks_text, who
from hangtop.diagnosis.roster import homes, known_ranks
from hangtop.diagnosis.rules.stuck import COMING_UP, WHOLE_START, begun
from hangtop.diagnosis.stacks.states import Meaning
from hangtop.diagnosis.tables.thresholds import START_LONGEST_S, START_S
from hangtop.diagnosis.waits.evidence import evidence_of, waiters_of
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import RankStatus, nodes_of

ONE_MASTER = (
    "Check that MASTER_ADDR is the address of the first node as all others see it, that nothing filters the port, and "
    "which interface is used (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME)."
)
ELSEWHERE = (
    "Look at what it does there, and why it does not go on: the others can only wait until it comes to make its groups."
)
MANY_STARTS = 2
"""Starts after the first that make a row of them: one may be a node that was taken in, or out."""
_NODES = re.compile(r"--nnodes[= ](\d+)")


def _idle(job: Job) -> Sequence[tuple[str, IdleLauncher]]:
    """Launchers, each with its node, of a job of which no rank was seen, and that did not fail since they began."""
    idle = [(name, one) for name, node in sorted(job.nodes.items()) for one in node.launchers.values()]
    idle = idle if job.live and not job.ranks else []
    began = min((one.started for _, one in idle), default=job.now)
    return [] if any(failure.at is None or failure.at >= began for failure in failures(job)) else idle


def _alone_for(job: Job) -> float:
    """Seconds for which no launcher has had a rank."""
    return job.now - max((one.started if one.since is None else one.since for _, one in _idle(job)), default=job.now)


def launching(job: Job) -> str:
    """Which launchers have no rank, and for how long, of a job of which none was seen; empty without one."""
    idle = _idle(job)
    if not idle:
        return ""
    nodes, long = {node for node, _ in idle}, duration(max(0.0, _alone_for(job)))
    asked = max((int(found.group(1)) for _, one in idle if (found := _NODES.search(one.command))), default=0)
    wanted = f": it waits for {count(asked, 'node')} and runs on {len(nodes)}" if asked > len(nodes) else ""
    return f"torchrun has had no rank on {nodes_text(sorted(nodes))} for {long}{wanted}"


def no_rank_started(job: Job) -> Iterator[Finding]:
    """init_hang by launchers: for longer than a start takes torchrun runs, and no rank does on any node."""
    idle = _idle(job)
    if idle and _alone_for(job) >= START_LONGEST_S:
        yield Finding(
            "init_hang", "critical", 0.75, launching(job), nodes=tuple(sorted({node for node, _ in idle})),
            evidence=tuple(
                Evidence(Observer.PROCESS, f"process {one.pid} on {node}", one.started, f"runs: {one.command}")
                for node, one in idle[:4]
            ),
            advice="Start it on the nodes that are missing, with the same rendezvous (--rdzv-endpoint or --master-addr "
            "and port, --rdzv-id), and look whether they reach it: it waits for --nnodes of them.",
        )  # fmt: skip


def started_anew(job: Job) -> Iterator[Finding]:
    """job_restarts: the launcher has started the ranks anew (TORCHELASTIC_RESTART_COUNT), and what ended them before.

    Critical from the second time on while no step was counted since the last; information once steps are.
    """
    living = [rank for rank in job.ranks if rank.gone_at is None] or list(job.ranks)
    times = max((rank.process.restart or 0 for rank in living), default=0)
    if not times or not job.live:
        return
    since = min(rank.process.started for rank in living)
    stepped = job.motion.last_step_at is not None and job.motion.last_step_at > since
    roots = [failure for failure in failures_before_restart(job) if not failure.consequence]
    first = min(roots, key=lambda failure: failure.bare, default=None)
    ranks = () if first is None or first.rank is None else (first.rank,)
    yield Finding(
        "job_restarts", "critical" if times >= MANY_STARTS and not stepped else "info", 0.85 if first else 0.6,
        f"the ranks were started anew {count(times, 'time')}, {duration(max(0.0, job.now - since))} ago the last"
        f"{f'; {who(ranks)} had failed first: {first.told}' if first else ''}",
        ranks=ranks, nodes=homes(job, ranks),
        evidence=(
            *((event_line(first.event),) if first else ()),
            Evidence(Observer.CONTEXT, "environment of the ranks", since, f"TORCHELASTIC_RESTART_COUNT={times}"),
        ),
        advice="Mend what ended the first start. The launcher tries again until its attempts are used up (torchrun "
        "--max-restarts).",
    )  # fmt: skip


def init_hang(job_status: JobStatus) -> Iterator[Finding]:
    """init_hang: ranks wait in init_process_group, a store or a rendezvous, longer than a start takes.

    Named are the ranks that are elsewhere, those that are not there, those that are still before the others, or those
    whose MASTER_ADDR and MASTER_PORT differ.
    """
    coming = [s for s in job_status.of("waiting") if s.activity and s.activity.kind in COMING_UP]
    graph = job_status.graph
    if graph is None or not coming or job_status.has_stepped:
        return
    through = [s for s in job_status.of("waiting", "on_gpu") if s not in coming and _trains(s)]
    if len(through) > len(coming) and all(s.activity and s.activity.op in WHOLE_START for s in coming):
        return
    if len(coming) * 2 < len(job_status.of("waiting")) or begun(graph.waiters):
        return
    age = min((job_status.job.now - s.process.process.started for s in coming if s.process), default=START_S)
    late = [culprit for culprit in graph.culprits if culprit not in coming and culprit not in through]
    stuck = any(s.state in ("working", "stopped", "uninterruptible") and s.frozen is not False for s in late)
    if graph.held < job_status.alarm_after or (age < START_S and not stuck):
        return
    if late and (all(map(job_status.works, late)) or all(graph.held < job_status.due(one) for one in late)):
        return  # it imports, builds its index of the data, or waits for something outside: told as waiting
    masters = Counter(filter(None, map(_master, coming)))
    ranks, why = _not_there(job_status, coming, late, masters)
    if through and not ranks:
        why = f"{_are([s.rank for s in through], 'is')} through, the others are not"
    named = [s for s in (*late, *coming) if s.rank in ranks]
    told = [f"MASTER_ADDR:MASTER_PORT {one} on {count(number, 'rank')}" for one, number in masters.most_common(3)]
    yield Finding(
        "init_hang", "critical", 0.85 if ranks else 0.7,
        f"{count(len(coming), 'rank')} {of_several('waits', len(coming))} to start"
        f"{f' at {masters.most_common(1)[0][0]}' if masters else ''}: {why}",
        ranks=ranks, nodes=nodes_of(named or coming),
        evidence=(
            *(evidence_of(named[0]) if named else ()),
            *waiters_of(graph),
            *(Evidence(Observer.CONTEXT, "environment of the ranks", None, one) for one in told),
        ),
        advice=ELSEWHERE if late else ONE_MASTER,
    )  # fmt: skip


def _not_there(
    job_status: JobStatus, coming: Sequence[RankStatus], late: Sequence[RankStatus], masters: Counter[str]
) -> tuple[tuple[int, ...], str]:
    """Which ranks hold up the start, and the words for it."""
    if late:
        ranks, where = tuple(sorted({s.rank for s in late})), late[0].where
        return ranks, f"{_are(ranks, 'has')} not come{f', still in {where}' if where else ''}"
    # ranks that still look for the store while others are past it; rank 0 serves the store, and waits there for all
    early = [s for s in coming if s.activity and s.activity.meaning is Meaning.RENDEZVOUS]
    if early and len(early) < len(coming):
        ranks = tuple(s.rank for s in early if s.rank != 0) or (0,)
        doing = early[0].activity.label if early[0].activity else ""
        return ranks, f"{ranks_text(ranks)} still {doing}, before the others"
    usual = masters.most_common(1)
    strangers = tuple(sorted(s.rank for s in coming if usual and _master(s) not in ("", usual[0][0])))
    if strangers:
        return strangers, f"{_are(strangers, 'looks')} for another master"
    there = {status.rank for status in job_status.statuses.values() if status.present}
    absent = () if min(there, default=0) < 0 else tuple(sorted(known_ranks(job_status.job) - there))
    if absent:
        return absent, f"{_are(absent, 'is')} not there"
    return (), "all are there; they do not reach each other, or make different groups (new_group in another order)"


def _are(ranks: Sequence[int], verb: str) -> str:
    return f"{ranks_text(ranks)} {of_several(verb, len(ranks))}"


def _trains(status: RankStatus) -> bool:
    """It waits in what comes after the start, of which the frames or its GPU tell."""
    doing = status.activity
    kinds = ("collective", "p2p", "device", "backward")
    return doing is not None and doing.kind in kinds and "init" not in doing.context


def _master(status: RankStatus) -> str:
    process = status.process.process if status.process else None
    return f"{process.master_addr}:{process.master_port}" if process and process.master_addr else ""


def nccl_init_stuck(job: Job) -> Iterator[Finding]:
    """init_hang by NCCL's log: a communicator's Init START without COMPLETE on some ranks.

    Live, only a start that is as old as the alarm counts. A communicator that some of its ranks have, and in which a
    collective timed out, had all of them: the others' lines are not there.
    """
    events = defaultdict(list)
    for event in said(job, "nccl.init"):
        if text_of(event, "comm_id") and number_of(event, "group_rank") is not None:
            events[text_of(event, "comm_id"), text_of(event, "parent")].append(event)
    for (comm, parent), own in sorted(events.items()):
        phases = {number_of(event, "group_rank") or 0: event for event in own}
        waiting = {rank for rank, event in phases.items() if text_of(event, "phase") == "start"}
        times = [event.at for rank, event in phases.items() if rank in waiting and event.at is not None]
        if not waiting or (job.live and (not times or job.now - max(times) < job.alarm_after)):
            continue
        if waiting < phases.keys() and said(job, "torch.watchdog_timeout"):
            continue
        size = max((number_of(event, "size") or 0 for event in own), default=0)
        absent = tuple(sorted(set(range(size)) - phases.keys()))
        named = absent if len(absent) * 2 <= size else ()
        never = f"; {ranks_text(named)} of it never began" if named else ""
        yield Finding(
            "init_hang", "critical", 0.75,
            f"NCCL communicator {comm} was begun by {ranks_text(waiting)} and never completed{never}",
            ranks=named if not parent else (), evidence=lines(own)[:3],
            advice="A rank did not come, or its bootstrap connection is blocked: look at its stack, its interface, a "
            "firewall.",
        )  # fmt: skip


RULES = (no_rank_started, started_anew, nccl_init_stuck)
STATUS_RULES = (init_hang,)
