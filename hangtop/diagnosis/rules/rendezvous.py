"""Ranks that do not find each other: the store, the rendezvous, the port."""

from __future__ import annotations

import re
from collections.abc import Iterator

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import number_of, text_of, words_of
from hangtop.diagnosis.evidence.events import hosts_in, lines, ranks_in, said
from hangtop.diagnosis.failures.first import follow_from_the_end
from hangtop.diagnosis.failures.record import failures
from hangtop.diagnosis.finding import Evidence, Finding, NextStep, Severity, next_step
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import listed, ranks_text, who
from hangtop.diagnosis.roster import world_size

_DONE = ", behind the end of the program: that means nothing"
_NO_NAME = re.compile(r"host not found|ame or service not known|in name resolution")


def address_in_use(job: Job) -> Iterator[Finding]:
    """address_in_use: the rendezvous port is taken; with the process that holds it, or TIME_WAIT.

    Needs the error of the store's server; the users of that port where the node tells.
    """
    events = said(job, "torch.address_in_use")
    if not events:
        return
    port = next((number for event in events if (number := number_of(event, "port")) is not None), None)
    holders, proof = [], []
    for name, node in sorted(job.nodes.items()):
        for use in node.network.ports:
            if use.port != port:
                continue
            if use.listeners:
                holders.append(f"{listed(use.listeners, 2)} on {name}")
            elif use.time_wait:
                holders.append(f"{use.time_wait} connections in TIME_WAIT on {name}")
            users = listed(use.listeners) or "nobody listens"
            proof.append(Evidence(f"/proc/net/tcp on {name}", job.now, f"port {port}: {users}"))
    held = f", held by {listed(holders)}" if holders else ""
    yield Finding(
        "address_in_use", "critical", 0.93,
        f"port {port if port is not None else 'of the rendezvous'} is already in use{held}",
        ranks=ranks_in(events), nodes=hosts_in(job, events), evidence=(*lines(events), *proof[:2]),
        advice="End the process that holds it (an earlier run, as a rule), or choose another MASTER_PORT.",
        next=_repairs(job),
    )  # fmt: skip


def _repairs(job: Job) -> tuple[NextStep, ...]:
    nodes = sorted(job.nodes)
    return tuple(next_step("K", "repair", what, *nodes) for what in ("orphans", "port")) if job.live else ()


def store_timeout(job: Job) -> Iterator[Finding]:
    """store_timeout: waits in the store or the rendezvous ended by time-out; who did not come, or who was not found.

    Needs the store's or the rendezvous' own lines.
    """
    stored = said(job, "torch.store_timeout")
    events = [*stored, *said(job, "elastic.rendezvous")]
    if not events:
        return
    clients = [event for event in events if number_of(event, "joined") is not None]
    connects = [event for event in events if text_of(event, "phase") == "connect"]
    # of one address among several torch prints what stands in memory, where no network leads to it (socket.cpp, 2.13)
    surest = sorted(events, key=lambda event: not event.data.get("whole"))
    address = next((a for event in surest if (a := _address(event.data.get("address"), event.data.get("port")))), "")
    ranks: tuple[int, ...] = ()
    if clients:
        joined, expected = number_of(clients[0], "joined"), number_of(clients[0], "expected")
        what = f"only {joined} of {expected} came to the store"
        present = {rank.rank for rank in job.ranks} | {event.rank for event in job.events if event.rank is not None}
        world = world_size(job) or expected or 0
        absent = tuple(rank for rank in range(world) if rank not in present)
        wanting = (expected or world) - (joined or 0)
        ranks = absent if present and 0 < len(absent) <= wanting else ()
    elif connects:
        ranks = ranks_in(connects)
        what = f"{who(ranks)} did not reach the store{f' at {address}' if address else ''}"
    else:
        keys = text_of(events[0], "keys")
        ranks = tuple(sorted({rank for event in events if (rank := number_of(event, "from_rank")) is not None}))
        what = f"a wait in the store ended by time-out{f' (keys {keys})' if keys else ''}"
        if all(text_of(event, "problem") in ("connection", "closed", "state") for event in events):
            what = "the rendezvous lost its store, or could not reach it"
    warned = {text_of(event, "warned") for event in events}
    leaving = warned == {"shutdown"} and not failures(job)
    done = _DONE if not stored and (leaving or follow_from_the_end(job, events)) else ""
    severity: Severity = "info" if done else "warning" if not stored and "" not in warned else "critical"
    missing = f"; {ranks_text(ranks)} left no word" if clients and ranks else ""
    if ranks and not clients and not connects:
        missing = f": {ranks_text(ranks)} had not come to the start of the communicator"
    yield Finding(
        "store_timeout", severity, 0.8 if clients or connects else 0.6, f"{what}{missing}{done}",
        ranks=ranks, nodes=hosts_in(job, events), evidence=lines(events),
        advice="Look at the ranks that did not come: did they start, and can they reach MASTER_ADDR and its port from "
        "their node?",
    )  # fmt: skip


def store_lost(job: Job) -> Iterator[Finding]:
    """store_timeout by connections to the store that broke: the process that serves it (rank 0's) ended first.

    Needs torch's own lines; after a good end they mean nothing, so alone they are a warning.
    """
    events = said(job, "torch.store_lost")
    if not events:
        return
    served = tuple(sorted({rank for event in events if (rank := number_of(event, "from_rank")) is not None}))
    done = _DONE if follow_from_the_end(job, events) else ""
    failed = bool(served) or any(event.data.get("consequence") is True for event in said(job, "python.exception"))
    yield Finding(
        "store_timeout", "info" if done else "critical" if failed else "warning", 0.5 if served else 0.4,
        f"{who(ranks_in(events))} lost the store: {ranks_text(served or (0,))}, whose process serves it, ended before"
        f"{done}",
        ranks=served, nodes=hosts_in(job, events), evidence=lines(events),
        advice="A consequence: look at the log of rank 0 and its node. After a run that ended well it means nothing.",
    )  # fmt: skip


def unresolved(job: Job) -> Iterator[Finding]:
    """init_hang by a name: MASTER_ADDR does not resolve on a node.

    Needs torch's warning about the address; one that is followed by a start that works is no fault, so it counts only
    beside a store that could not be reached, or where the rendezvous raised it.
    """
    events = said(job, "torch.unresolved")
    stores = [e for e in said(job, "torch.store_timeout") if text_of(e, "phase") == "connect"]
    raised = [event for event in said(job, "python.exception") if is_unresolved(event)]
    if not events or not (stores or raised or said(job, "torch.store_retry")):
        return
    address = text_of(events[0], "address")
    yield Finding(
        "init_hang", "critical", 0.85, f"MASTER_ADDR {address or ''} does not resolve".replace("  ", " "),
        ranks=ranks_in(events), nodes=hosts_in(job, events), evidence=(*lines(events), *lines(stores)[:1]),
        advice="Use an address that every node resolves, or the first node's IP address.",
    )  # fmt: skip


LATELY = 40
"""Lines after the last try from which on the job went on."""
WAITS = 3
"""Lines of ten seconds each: fewer are an ordinary start."""
CLOSE = 5
"""Lines after the last rank that joined from which on something else went on."""


def waiting(job: Job) -> Iterator[Finding]:
    """init_hang by a log that ends in waits at the store: some ranks have not come to the group, or too many have.

    Needs torch's lines about its barrier over the store, of a job that is over; one that came about, or that ended, is
    told elsewhere.
    """
    events = said(job, "torch.store_waiting")
    if job.live or said(job, "torch.store_complete") or said(job, "torch.store_timeout"):
        return
    joined, expected = (number_of(events[-1], name) for name in ("joined", "expected")) if events else (None, None)
    if joined is not None and expected is not None and joined > expected:
        yield Finding(
            "init_hang", "critical", 0.7,
            f"{ranks_text(ranks_in(events))} waited for a group of {expected}, to whose store {joined} had come",
            nodes=hosts_in(job, events), evidence=lines(events),
            advice="torch's barrier waits until exactly as many came: look for an earlier run whose store still "
            "serves, for ranks that were started twice, and for a world_size that differs.",
        )  # fmt: skip
        return
    if joined is None or expected is None or joined == expected or len(events) < WAITS:
        return
    yield Finding(
        "init_hang", "critical", 0.7,
        f"{ranks_text(ranks_in(events))} waited for the group to come together: {joined} of {expected} ranks had come",
        nodes=hosts_in(job, events), evidence=lines(events),
        advice="Look at the ranks that did not come: did they start, and with the same MASTER_ADDR and WORLD_SIZE?",
    )  # fmt: skip


def joining(job: Job) -> Iterator[Finding]:
    """init_hang by logs that end in Lightning's words of ranks that join, without its word that all have come.

    Needs those lines at the end of logs of a job that is over.
    """
    events = said(job, "job.joining")
    ends = {event.source: event.line for event in said(job, "log.end")}
    last = {event.source: event.line for event in events}
    if job.live or not events or said(job, "job.joined") or failures(job):
        return
    if any(ends.get(source, 0) - line > CLOSE for source, line in last.items()):
        return
    size = number_of(events[-1], "size") or 0
    joined = ranks_in(events)
    absent = tuple(rank for rank in range(size) if rank not in joined)
    silent = f"; of {ranks_text(absent)} there is no word" if absent else ""
    yield Finding(
        "init_hang", "critical", 0.6,
        f"{ranks_text(joined)} of {size} wait for the group to come together{silent}",
        nodes=hosts_in(job, events), evidence=lines(events),
        advice="Did the others start, and can they reach MASTER_ADDR? Under Slurm as many tasks have to run on each "
        "node as the Trainer has devices there (srun, --ntasks-per-node).",
    )  # fmt: skip


def is_unresolved(event: LogEvent) -> bool:
    """An exception out of torch's rendezvous that says that a name does not resolve."""
    in_torch = any("torch/distributed" in frame for frame in words_of(event, "frames"))
    return in_torch and bool(_NO_NAME.search(text_of(event, "message")))


def nccl_init_stuck(job: Job) -> Iterator[Finding]:
    """init_hang by NCCL's log: a communicator's Init START without COMPLETE on some ranks.

    Needs NCCL INFO lines; live, only a start that is a minute old counts. A communicator that some of its ranks have,
    and in which a collective timed out, had all of them: the others' lines are not there.
    """
    began: dict[tuple[str, str], set[int]] = {}
    begun: dict[tuple[str, str], dict[int, float | None]] = {}
    sizes: dict[tuple[str, str], int] = {}
    proof: dict[tuple[str, str], list[str]] = {}
    for event in said(job, "nccl.init"):
        comm, rank = text_of(event, "comm_id"), number_of(event, "group_rank")
        if not comm or rank is None:
            continue
        key = comm, text_of(event, "parent")
        proof.setdefault(key, []).append(f"{event.source}:{event.line}")
        size = number_of(event, "size")
        if size:
            sizes[key] = size
        began.setdefault(key, set()).add(rank)
        if text_of(event, "phase") == "start":
            begun.setdefault(key, {})[rank] = event.at
        else:
            begun.setdefault(key, {}).pop(rank, None)
    for key, open_ranks in sorted(begun.items()):
        times = [at for at in open_ranks.values() if at is not None]
        if not open_ranks or (job.live and (not times or job.now - max(times) < job.alarm_after)):
            continue
        started = set(open_ranks)
        if began[key] - started and said(job, "torch.watchdog_timeout"):
            continue
        absent = set(range(sizes.get(key, 0))) - began[key]
        named = tuple(sorted(absent)) if absent and len(absent) * 2 <= sizes.get(key, 0) else ()
        who = f"; {ranks_text(named)} of it never began" if named else ""
        yield Finding(
            "init_hang", "critical", 0.75,
            f"NCCL communicator {key[0]} was begun by {ranks_text(started)} and never completed{who}",
            ranks=named if key[1] == "" else (),
            evidence=tuple(Evidence(where, None, "Init START") for where in proof[key][:3]),
            advice="A rank did not come, or its bootstrap connection is blocked: look at its stack, its interface, a "
            "firewall.",
        )  # fmt: skip


def _address(address: object, port: object) -> str:
    if not isinstance(address, str) or not address:
        return ""
    return f"{address}:{port}" if isinstance(port, int) else address
