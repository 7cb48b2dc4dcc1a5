"""The store and the rendezvous of torch: a port that is taken, a name that does not resolve, a wait that timed out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import number_of, text_of, words_of
from hangtop.diagnosis.evidence.events import finished, hosts_in, lines, ranks_in, said
from hangtop.diagnosis.failures.first import AT_EXIT, finished_ranks
from hangtop.diagnosis.failures.record import failures
from hangtop.diagnosis.finding import Evidence, Finding, Observer, Severity, next_step
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import listed, ranks_text, who
from hangtop.diagnosis.roster import world_size

AT_THE_END = ", behind the end of the program: that means nothing"


def address_in_use(job: Job) -> Iterator[Finding]:
    """address_in_use: the rendezvous port is taken; with the process that holds it, or TIME_WAIT."""
    events = said(job, "torch.address_in_use")
    if not events:
        return
    port = next((number for event in events if (number := number_of(event, "port")) is not None), None)
    held = [
        (name, listed(use.listeners, 2) or f"{use.time_wait} connections in TIME_WAIT")
        for name, node in sorted(job.nodes.items())
        for use in node.network.ports
        if use.port == port and (use.listeners or use.time_wait)
    ]
    by = listed([f"{users} on {name}" for name, users in held])
    proof = [
        Evidence(Observer.NETWORK, f"/proc/net/tcp on {name}", job.now, f"port {port}: {users}")
        for name, users in held[:2]
    ]
    repairs = ("orphans", "port") if job.live else ()
    yield Finding(
        "address_in_use", "critical", 0.93,
        f"port {'of the rendezvous' if port is None else port} is already in use{f', held by {by}' if by else ''}",
        ranks=ranks_in(events), nodes=hosts_in(job, events), evidence=(*lines(events), *proof),
        advice="End the process that holds it (an earlier run, as a rule), or choose another MASTER_PORT.",
        next=tuple(next_step("K", "repair", what, *sorted(job.nodes)) for what in repairs),
    )  # fmt: skip


def store_timeout(job: Job) -> Iterator[Finding]:
    """store_timeout: waits in the store or the rendezvous ended by time-out; who did not come, or who was not found."""
    stored = said(job, "torch.store_timeout")
    events = [*stored, *said(job, "elastic.rendezvous")]
    if not events:
        return
    clients = next((event for event in events if number_of(event, "joined") is not None), None)
    connects = [event for event in events if text_of(event, "phase") == "connect"]
    if clients is not None:
        joined, expected = number_of(clients, "joined") or 0, number_of(clients, "expected") or 0
        present = {rank.rank for rank in job.ranks} | {event.rank for event in job.events if event.rank is not None}
        absent = tuple(rank for rank in range(world_size(job) or expected) if rank not in present)
        ranks = absent if present and len(absent) <= expected - joined else ()
        what = f"only {joined} of {expected} came to the store{f'; {ranks_text(ranks)} left no word' if ranks else ''}"
    elif connects:
        # of one address among several torch prints what stands in memory, where no network leads to it
        best = min(connects, key=lambda event: (not event.data.get("whole"), not text_of(event, "address")))
        ranks, address, port = ranks_in(connects), text_of(best, "address"), number_of(best, "port")
        at = f" at {address}{'' if port is None else f':{port}'}" if address else ""
        what = f"{who(ranks)} did not reach the store{at}"
    else:
        keys = text_of(events[0], "keys")
        ranks = tuple(sorted({rank for event in events if (rank := number_of(event, "from_rank")) is not None}))
        lost = all(text_of(event, "problem") in ("connection", "closed", "state") for event in events)
        what = f"a wait in the store ended by time-out{f' (keys {keys})' if keys else ''}"
        what = "the rendezvous lost its store, or could not reach it" if lost else what
        what += f": {ranks_text(ranks)} had not come to the start of the communicator" if ranks else ""
    warned = {text_of(event, "warned") for event in events}
    harmless = warned == {"shutdown"} and not failures(job)
    done = AT_THE_END if not stored and (harmless or _after_the_end(job, events)) else ""
    severity: Severity = "info" if done else "warning" if not stored and "" not in warned else "critical"
    yield Finding(
        "store_timeout", severity, 0.8 if clients or connects else 0.6, f"{what}{done}",
        ranks=ranks, nodes=hosts_in(job, events), evidence=lines(events),
        advice="Look at the ranks that did not come: did they start, and can they reach MASTER_ADDR and its port from "
        "their node?",
    )  # fmt: skip


def store_lost(job: Job) -> Iterator[Finding]:
    """store_timeout by connections to the store that broke: the process that serves it (rank 0's) ended first.

    After a good end these lines mean nothing, so alone they are a warning.
    """
    events = said(job, "torch.store_lost")
    if not events:
        return
    served = tuple(sorted({rank for event in events if (rank := number_of(event, "from_rank")) is not None}))
    done = AT_THE_END if _after_the_end(job, events) else ""
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

    A warning of torch that is followed by a start that works is no fault: it counts beside a store that could not be
    reached, or where the rendezvous raised.
    """
    events = said(job, "torch.unresolved")
    stores = [e for e in said(job, "torch.store_timeout") if text_of(e, "phase") == "connect"]
    raised = any("torch/distributed" in " ".join(words_of(event, "frames")) for event in said(job, "python.exception"))
    if events and (stores or raised or said(job, "torch.store_retry")):
        address = f" {text_of(events[0], 'address')}".rstrip()
        yield Finding(
            "init_hang", "critical", 0.85, f"MASTER_ADDR{address} does not resolve",
            ranks=ranks_in(events), nodes=hosts_in(job, events), evidence=(*lines(events), *lines(stores)[:1]),
            advice="Use an address that every node resolves, or the first node's IP address.",
        )  # fmt: skip


def _after_the_end(job: Job, events: Sequence[LogEvent]) -> bool:
    """Whether no rank failed by itself, and the run, or rank 0, which serves the store, had come to its end before."""
    if any(not failure.consequence for failure in failures(job)):
        return False
    end = next((event for event in finished_ranks(job) if event.kind == AT_EXIT and event.rank == 0), None)
    late = end is not None and all(event.at is None or end.at is None or event.at >= end.at - 1.0 for event in events)
    return late or finished(job)
