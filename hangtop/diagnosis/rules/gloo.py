"""What gloo's errors prove: waits that ended by time-out, and messages of another size than expected."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.groups.vote import vote
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import duration, listed, ranks_text, who
from hangtop.diagnosis.roster import known_ranks, world_or_logged
from hangtop.diagnosis.witnesses.event_fields import number_of, text_of, words_of
from hangtop.diagnosis.witnesses.messages import hosts_in, lines, ranks_in, said

MOST_WAITED = 2
"""Ranks that waited in vain, from which on the only other one is told."""
_OPERATION = re.compile(r"torch/distributed/distributed_c10d\.py:\d+ in (?!wrapper\b|_)(\w+)")

_IN_BACKWARD = "the backward pass of "
_PEER_TO_PEER = re.compile(r"(?:send|recv)")
_BACKWARD = re.compile(r"torch/(?:_tensor|autograd/__init__)\.py:\d+ in backward\b")


def timed_out(job: Job) -> Iterator[Finding]:
    """watchdog_timeout by gloo: a rank's word that nothing came from a peer, which gloo does not name.

    Needs gloo's error. Those who wrote it are victims; a rank of the job that says nothing of its own, while the others
    waited or lost their connections, is the one that did not come.
    """
    events = said(job, "gloo.timeout")
    if not events:
        return
    own = {*ranks_in(events), *ranks_in(said(job, "gloo.closed")), *ranks_in(said(job, "python.exception"))}
    known = known_ranks(job)
    unheard = tuple(sorted(known - own))
    unheard = unheard if own and len(unheard) * 2 <= len(known) else ()
    waited = next((ms for event in events if (ms := number_of(event, "ms"))), None)
    side = {text_of(event, "direction") for event in events}
    what = "send" if side == {"send"} else "receive"
    long = f" for {duration(waited / 1000)}" if waited else ""
    absent = (
        f"{ranks_text(unheard)} {'says' if len(unheard) == 1 else 'say'} nothing and had not come" if unheard else ""
    )
    late = _lost_peers_alone(job, events)
    if late is not None and not unheard:
        absent = f"rank {late} alone did not time out, but lost its peers: it may be the one that did not come"
        unheard = (late,) if world_or_logged(job) == len(known) else ()  # else one may be missing that left no word
    yield Finding(
        "watchdog_timeout", "critical", 0.7 if unheard and late is None else 0.5,
        f"{who(ranks_in(events))} waited in vain to {what} over gloo{long}: "
        + (absent or "nothing tells who did not come"),
        ranks=unheard, nodes=hosts_in(job, events) if not unheard else (), evidence=lines(events),
        advice="The time-out is a consequence: find what kept the rank that did not come (its last log lines). "
        "TORCH_DISTRIBUTED_DEBUG=DETAIL makes torch name it.",
    )  # fmt: skip


def _lost_peers_alone(job: Job, timeouts: Sequence[LogEvent]) -> int | None:
    """The only rank whose wait did not end by time-out, two of the others' or more having done so.

    Who comes when the others have given up finds their connections closed. So does who waits himself when a neighbour
    gives up a moment earlier, which is why this is no proof.
    """
    waited, closed = set(ranks_in(timeouts)), set(ranks_in(said(job, "gloo.closed")))
    late = closed - waited
    if len(late) != 1 or len(waited) < MOST_WAITED or waited | late != known_ranks(job):
        return None
    return next(iter(late))


def differing_calls(job: Job) -> Iterator[Finding]:
    """collective_mismatch by the tracebacks of a time-out: ranks were in different operations, or not in backward.

    Needs the traceback of a collective's time-out from two ranks or more; where no operation has a majority, nobody is
    accused alone. Who waits for one that does not come waits in the same collective as all others.
    """
    told = [event for event in said(job, "python.exception", "collective_timeout", "connection") if _call(event)]
    if not any(text_of(event, "signature") == "collective_timeout" for event in told):
        return
    calls = {event.rank: _call(event) for event in told if event.rank is not None}
    counted = vote(calls)
    places = any(call.startswith(_IN_BACKWARD) for call in calls.values())
    if counted is None or not counted.odd or (places and any(_PEER_TO_PEER.search(call) for call in calls.values())):
        return  # stages of a pipeline wait in different places
    odd = listed([f"rank {rank} in {call}" for rank, call in sorted(counted.odd.items())])
    proof = [event for event in told if event.rank in counted.odd] + [e for e in told if e.rank not in counted.odd]
    yield Finding(
        "collective_mismatch", "critical", 0.6 if counted.tied else 0.7 if places else 0.85,
        f"ranks timed out in different operations: {odd}, {ranks_text(counted.usual_ranks)} in {counted.usual}",
        ranks=counted.odd_ranks, nodes=hosts_in(job, proof), evidence=lines(proof),
        advice="Look for a collective behind `if rank == …`, or for branches that depend on the data.",
    )  # fmt: skip


def _call(event: LogEvent) -> str:
    """The operation of torch.distributed that a traceback is in, or the place whose backward pass it is in."""
    frames = words_of(event, "frames")
    calls = [found.group(1) for frame in frames if (found := _OPERATION.search(frame))]
    backward = any(_BACKWARD.search(frame) for frame in frames)
    return calls[-1] if calls else f"{_IN_BACKWARD}{text_of(event, 'frame')}" if backward else ""


def unconnected(job: Job) -> Iterator[Finding]:
    """nccl_connect_failed by gloo: ranks could not connect to the others, and gloo says no more.

    Needs gloo's error. Where a peer had closed the connection, that is told by other rules.
    """
    events = [event for event in said(job, "gloo.connect_failed") if not text_of(event, "peer")]
    if events and not said(job, "gloo.closed"):
        ranks = ranks_in(events)
        yield Finding(
            "nccl_connect_failed", "critical", 0.6,
            f"{who(ranks)} could not connect to all others over gloo: nothing tells which one does not answer",
            nodes=hosts_in(job, events), evidence=lines(events),
            advice="Set GLOO_SOCKET_IFNAME to the interface that all nodes share, and see that no host name stands for "
            "127.0.0.1 in /etc/hosts; a rank that never started does the same.",
        )  # fmt: skip


def sizes(job: Job) -> Iterator[Finding]:
    """collective_size_mismatch by gloo: a message came in another size than the receiver had set up.

    Needs gloo's enforce message. It is printed by the receiving rank, which may be either side of the disagreement.
    """
    events = said(job, "gloo.size_mismatch")
    if events:
        ranks = ranks_in(events)
        yield Finding(
            "collective_size_mismatch", "critical", 0.7,
            f"{who(ranks)} received a message of another size than its own tensor: "
            "ranks called one collective with different sizes",
            ranks=ranks, nodes=hosts_in(job, events), evidence=lines(events),
            advice="Run once with TORCH_DISTRIBUTED_DEBUG=DETAIL: it names both ranks and both shapes.",
        )  # fmt: skip
