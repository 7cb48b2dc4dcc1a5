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
COME = "Look at the ranks that did not come: did they start, can they reach MASTER_ADDR and its port from their node?"


def address_in_use(job: Job) -> Iterator[Finding]:
    """address_in_use: the rendezvous port is taken; with the process that holds it."""
    events = said(job, "torch.address_in_use")
    if not events:
        return
    port = next((number for event in events if (number := number_of(event, "port")) is not None), None)
    held = [
        f"{listed(use.listeners, 2)} on {name}"
        for name, node in sorted(job.nodes.items())
        for use in node.port_uses.values()
        if use.port == port and use.listeners
    ]
    yield Finding(
        "address_in_use", "critical", 0.93,
        f"port {'of the rendezvous' if port is None else port} is already in use"
        f"{f', held by {listed(held)}' if held else ''}",
        ranks=ranks_in(events), nodes=hosts_in(job, events),
        evidence=(*lines(events), *(Evidence(Observer.NETWORK, "/proc/net/tcp", job.now, one) for one in held[:2])),
        advice="End the process that holds it (an earlier run, as a rule), or choose another MASTER_PORT.",
        next=(next_step("", "preflight", *sorted(job.nodes)),) if job.live else (),
    )  # fmt: skip


def store_timeout(job: Job) -> Iterator[Finding]:
    """store_timeout: waits in the store or the rendezvous ended by time-out; who did not come, or who was not found.

    Or its connections broke: the process that serves it (rank 0's) ended first. After a good end that means nothing.
    """
    stored, lost = said(job, "torch.store_timeout"), said(job, "torch.store_lost")
    events = [*stored, *said(job, "elastic.rendezvous")] or list(lost)
    if not events:
        return
    clients = next((event for event in events if number_of(event, "joined") is not None), None)
    connects = [event for event in events if text_of(event, "phase") == "connect"]
    ranks = tuple(sorted({rank for event in events if (rank := number_of(event, "from_rank")) is not None}))
    weight = 0.6
    if clients is not None:
        joined, expected, weight = number_of(clients, "joined") or 0, number_of(clients, "expected") or 0, 0.8
        present = {rank.rank for rank in job.ranks} | {event.rank for event in job.events if event.rank is not None}
        absent = tuple(rank for rank in range(world_size(job) or expected) if rank not in present)
        ranks = absent if present and len(absent) <= expected - joined else ()
        what = f"only {joined} of {expected} came to the store{f'; {ranks_text(ranks)} left no word' if ranks else ''}"
    elif connects:
        # of one address among several torch prints what stands in memory, where no network leads to it
        best = min(connects, key=lambda event: (not event.data.get("whole"), not text_of(event, "address")))
        at = ":".join(filter(None, (text_of(best, "address"), str(number_of(best, "port") or ""))))
        ranks, weight = ranks_in(connects), 0.8
        what = f"{who(ranks)} did not reach the store{f' at {at}' if at else ''}"
    elif events == list(lost):
        weight = 0.5 if ranks else 0.4
        what = f"{who(ranks_in(events))} lost the store: {ranks_text(ranks or (0,))}, which serves it, ended before"
    else:
        broke = all(text_of(event, "problem") in ("connection", "closed", "state") for event in events)
        what = "the rendezvous lost its store, or could not reach it" if broke else "a wait in the store timed out"
        what += f": {ranks_text(ranks)} had not come to the start of the communicator" if ranks else ""
    warned = {text_of(event, "warned") for event in events if event not in lost}
    failed = bool(ranks) or any(event.data.get("consequence") is True for event in said(job, "python.exception"))
    alone = "" not in warned if warned else not failed
    done = not stored and ((warned == {"shutdown"} and not failures(job)) or _after_the_end(job, events))
    severity: Severity = "info" if done else "warning" if not stored and alone else "critical"
    yield Finding(
        "store_timeout", severity, weight, f"{what}{AT_THE_END if done else ''}",
        ranks=ranks, nodes=hosts_in(job, events), evidence=lines(events), advice=COME,
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


RULES = (address_in_use, store_timeout, unresolved)
