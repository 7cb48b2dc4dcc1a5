"""A job that does not come up: launchers without ranks, ranks that wait to start, a store that is not reached."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import number_of, text_of
from hangtop.diagnosis.evidence.events import finished, hosts_in, lines, log_events, ranks_in
from hangtop.diagnosis.failures.record import failures
from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import duration, listed, of_several, ranks_text, waiters_text
from hangtop.diagnosis.rules.stuck import COMING_UP, coming_up
from hangtop.diagnosis.stacks.states import Meaning
from hangtop.diagnosis.tables.thresholds import START_LONGEST_S, START_S
from hangtop.diagnosis.waits.evidence import evidence_of, waiters_of
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import WAITS, RankStatus, nodes_of

ONE_MASTER = (
    "Check that MASTER_ADDR is the address of the first node as all others see it, that nothing filters the port, and "
    "which interface is used (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME)."
)
ELSEWHERE = "Look at what it does there: the others wait until it comes to create its process groups."
COME = "Look at the ranks that did not come: did they start, can they reach MASTER_ADDR and its port from their node?"
AT_END = 12
"""Most lines between a rank that announces itself and the end of a log that ends during the start."""
OTHER_NODES = "torchrun waits for --nnodes nodes: start it on the others; check that they reach the rendezvous."


def launching(job: Job) -> str:
    """``torchrun has had no rank on node1 for 40 s``, for a live job of which no rank was seen; else empty."""
    return next((finding.summary for finding in no_rank_started(job, least=0.0)), "")


def no_rank_started(job: Job, least: float = START_LONGEST_S) -> Iterator[Finding]:
    """init_hang: torchrun runs, and has had no rank on any node for longer than a start takes.

    No finding if something failed since the launchers began.
    """
    idle = [(name, agent) for name, node in sorted(job.nodes.items()) for agent in node.launchers.values()]
    began = min((agent.started for _, agent in idle), default=job.now)
    failed = any(failure.at is None or failure.at >= began for failure in failures(job))
    held = max(0.0, job.now - max((agent.since or agent.started for _, agent in idle), default=job.now))
    if idle and job.live and not job.ranks and not failed and held >= least:
        nodes = tuple(dict.fromkeys(name for name, _ in idle))
        proof = [
            Evidence(Observer.PROCESS, f"process {agent.pid} on {name}", agent.started, f"runs: {agent.command}")
            for name, agent in idle[:4]
        ]
        text = f"torchrun has had no rank on {listed(nodes)} for {duration(held)}"
        yield Finding("init_hang", "critical", 0.75, text, nodes=nodes, evidence=tuple(proof), advice=OTHER_NODES)


# --- ranks that wait to start ------------------------------------------------------------------------------------


def init_hang(job_status: JobStatus) -> Iterator[Finding]:
    """init_hang: ranks wait in init_process_group, a store or a rendezvous, longer than a start takes.

    A rank that works on its way to the start is no fault: ``waiting`` reports it. No finding while some ranks could not
    be read.
    """
    graph = job_status.graph
    if graph.pattern in ("none", "unclear") or graph.held < job_status.alarm_after or not coming_up(job_status):
        return
    coming = [s for s in job_status.of("waiting") if s.activity and s.activity.kind in COMING_UP]
    age = min((job_status.job.now - s.process.process.started for s in coming if s.process), default=START_S)
    late = [culprit for culprit in graph.culprits if culprit.state not in WAITS]
    stays = any(s.state in ("working", "stopped", "uninterruptible") and s.frozen is not False for s in late)
    if (age < START_S and not stays) or (late and graph.held < min(map(job_status.due, late))):
        return
    masters = Counter(filter(None, map(_master, coming)))
    absent, why = _not_there(coming, late, masters)
    at = f" at {masters.most_common(1)[0][0]}" if masters else ""
    yield Finding(
        "init_hang", "critical", 0.85 if absent else 0.7, f"{waiters_text(coming, 'rank')} to start{at}: {why}",
        ranks=tuple(sorted(status.rank for status in absent)), nodes=nodes_of(absent or coming),
        evidence=(*(line for status in absent[:1] for line in evidence_of(status)), *waiters_of(graph)),
        advice=ELSEWHERE if late else ONE_MASTER,
    )  # fmt: skip


def _not_there(
    coming: Sequence[RankStatus], late: Sequence[RankStatus], masters: Counter[str]
) -> tuple[Sequence[RankStatus], str]:
    """Ranks that hold up the start, and the reason as text.

    These are ranks elsewhere in their code; ranks still at the rendezvous while others wait at the store (not rank 0,
    which serves it); or ranks whose MASTER_ADDR or MASTER_PORT differs.
    """
    early = [s for s in coming if s.activity and s.activity.meaning is Meaning.RENDEZVOUS]
    usual = max(masters, key=lambda master: masters[master], default="")
    reasons = (
        (late, "has not come" + "".join(f", still in {status.where}" for status in late[:1] if status.where)),
        ([s for s in early if s.rank != 0] if len(early) < len(coming) else [],
         "is still at the rendezvous of init_process_group, before the others"),
        ([s for s in coming if _master(s) not in ("", usual)], "looks for another master"),
    )  # fmt: skip
    for members, why in reasons:
        if members:
            return members, f"{ranks_text(status.rank for status in members)} {of_several(why, len(members))}"
    return (), "all are there, but do not reach each other or create different groups (new_group in another order)"


def _master(status: RankStatus) -> str:
    process = status.process.process if status.process else None
    return f"{process.master_addr}:{process.master_port}" if process and process.master_addr else ""


# --- by logs: the store of torch, and communicators of NCCL -------------------------------------------------------


def store_timeout(job: Job) -> Iterator[Finding]:
    """store_timeout: a wait at the store or the rendezvous timed out; names ranks that did not come or connect.

    A launcher's warning is no time-out. A rendezvous that lost its store (the serving process ended first, or cannot be
    reached) counts if the run did not complete.
    """
    raised = [event for event in log_events(job, "elastic.rendezvous") if not text_of(event, "warned")]
    waits = [event for event in raised if text_of(event, "problem").lower().startswith("time")]
    lost = [event for event in raised if text_of(event, "problem") == "Connection" and not finished(job)]
    events = [*log_events(job, "torch.store_timeout"), *waits] or lost
    if not events:
        return
    joined = next((number for event in events if (number := number_of(event, "joined")) is not None), None)
    expected = next((number for event in events if (number := number_of(event, "expected"))), 0)
    connects = [event for event in events if text_of(event, "phase") == "connect"]
    if joined is not None:
        present = {rank.rank for rank in job.ranks} | {event.rank for event in job.events if event.rank is not None}
        absent = tuple(rank for rank in range(expected) if rank not in present)
        ranks = absent if present and len(absent) <= expected - joined else ()
        what = f"only {joined} of {expected} came to the store"
    elif connects:
        ranks, store = ranks_in(connects), text_of(connects[-1], "address")
        what = f"{ranks_text(ranks) or 'a rank'} did not reach the store{store and f' at {store}'}"
    elif events == lost:
        ranks, what = (), "the launcher has no connection to the store: its server ended, or cannot be reached"
    else:
        ranks = tuple(sorted({rank for event in events if (rank := number_of(event, "from_rank")) is not None}))
        who = ranks_text(ranks) or "a rank"
        what = f"a wait in the store timed out: {who} had not come to the communicator's start"
    yield Finding(
        "store_timeout", "critical", 0.6 if joined is None and not connects else 0.8, what,
        ranks=ranks, nodes=hosts_in(job, events), evidence=lines(events), advice=COME,
    )  # fmt: skip


def nccl_init_stuck(job: Job) -> Iterator[Finding]:
    """init_hang by NCCL's log: a communicator's Init START without COMPLETE on some ranks.

    Live, the newest START must be as old as the alarm. After a collective's time-out, all communicators were complete:
    the other ranks' lines are missing. Also by saved logs that end where some of Lightning's ranks announce themselves.
    """
    by_comm: dict[str, dict[int, LogEvent]] = defaultdict(dict)
    for event in log_events(job, "nccl.init") if not log_events(job, "torch.watchdog_timeout") else ():
        if text_of(event, "comm_id") and (place := number_of(event, "group_rank")) is not None:
            by_comm[text_of(event, "comm_id")][place] = event
    saved = not job.live and not finished(job)
    announced = [event for event in log_events(job, "job.size") if event.rank is not None and saved]
    begins = {event.source: event.line - AT_END for event in log_events(job, "log.end")}
    if announced and all(event.line >= begins.get(event.source, 0) for event in announced):
        by_comm[""] = {event.rank: event for event in (*job.events, *announced) if event.rank is not None}
    for comm, phases in sorted(by_comm.items()):
        waiting = {place: e for place, e in phases.items() if not comm or text_of(e, "phase").lower() == "start"}
        newest = max((event.at for event in waiting.values() if event.at is not None), default=job.now)
        size = max(number_of(event, "size") or 0 for event in phases.values())
        absent = tuple(place for place in range(size) if place not in phases)
        absent = absent if len(absent) * 2 <= size else ()
        if not waiting or not (comm or absent) or (job.live and job.now - newest < job.alarm_after):
            continue
        split = any(text_of(event, "parent") for event in phases.values())  # its places are not global ranks
        yield Finding(
            "init_hang", "critical", 0.75 if comm else 0.5,
            f"{comm and 'NCCL communicator '}{comm or 'the job'} was begun by {ranks_text(waiting)} and never completed"
            f"{f'; {ranks_text(absent)} of it never began' if absent else ''}",
            ranks=() if split else absent, evidence=lines([*waiting.values()]), advice=COME,
        )  # fmt: skip


RULES = (no_rank_started, store_timeout, nccl_init_stuck)
STATUS_RULES = (init_hang,)
