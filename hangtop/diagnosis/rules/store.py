"""The store and the rendezvous of torch: a port that is taken, a name that does not resolve, a wait that timed out."""

from __future__ import annotations

from collections.abc import Iterator

from hangtop.diagnosis.evidence.event_fields import number_of, text_of, words_of
from hangtop.diagnosis.evidence.events import hosts_in, lines, ranks_in, said
from hangtop.diagnosis.finding import Evidence, Finding, Observer, next_step
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import listed, ranks_text, who
from hangtop.diagnosis.roster import world_size

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
    """store_timeout: a wait in the store or the rendezvous ended by time-out; who did not come, or did not get there.

    A launcher's warning is no time-out, nor is a connection that broke: the process that serves the store ended first.
    """
    waits = [event for event in said(job, "elastic.rendezvous") if text_of(event, "problem") == "timeout"]
    events = [*said(job, "torch.store_timeout"), *(event for event in waits if not text_of(event, "warned"))]
    if not events:
        return
    clients = next((event for event in events if number_of(event, "joined") is not None), None)
    connects = [event for event in events if text_of(event, "phase") == "connect"]
    ranks = tuple(sorted({rank for event in events if (rank := number_of(event, "from_rank")) is not None}))
    what = f"a wait in the store timed out: {who(ranks, 'a rank')} had not come to the start of the communicator"
    if clients is not None:
        joined, expected = number_of(clients, "joined") or 0, number_of(clients, "expected") or 0
        present = {rank.rank for rank in job.ranks} | {event.rank for event in job.events if event.rank is not None}
        absent = tuple(rank for rank in range(world_size(job) or expected) if rank not in present)
        ranks = absent if present and len(absent) <= expected - joined else ()
        what = f"only {joined} of {expected} came to the store{f'; {ranks_text(ranks)} left no word' if ranks else ''}"
    elif connects:
        # of one address among several torch prints what stands in memory, where no network leads to it
        best = min(connects, key=lambda event: (not event.data.get("whole"), not text_of(event, "address")))
        at = ":".join(filter(None, (text_of(best, "address"), str(number_of(best, "port") or ""))))
        ranks = ranks_in(connects)
        what = f"{who(ranks)} did not reach the store{f' at {at}' if at else ''}"
    yield Finding(
        "store_timeout", "critical", 0.8 if clients or connects else 0.6, what,
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


RULES = (address_in_use, store_timeout, unresolved)
