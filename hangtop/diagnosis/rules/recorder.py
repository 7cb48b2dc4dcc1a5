"""What flight recorder dumps prove: ranks that did not join, calls that differ, circles of sends and receives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hangtop.diagnosis.collectives.recorder import Differs, Matched, Stalled, odd_size
from hangtop.diagnosis.collectives.sources import matched_dumps
from hangtop.diagnosis.collectives.vote import Vote
from hangtop.diagnosis.collectives.wait_edge import WaitEdge
from hangtop.diagnosis.evidence.events import lines, warned
from hangtop.diagnosis.failures.first import ended_ranks, left_at_exit
from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, duration, listed, ranks_on, ranks_text
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.rules.not_launched import CODE
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.points import peers_awaited

OWN_GPU = "Suspect a kernel on that GPU that does not end, or the GPU itself: look at its power, clocks and Xid errors."
SCHEDULED = 0.7
"""Most weight where recorders tell of what was scheduled alone: whether a GPU has begun it nobody knows."""


def flight_recorder(job_status: JobStatus) -> Iterator[Finding]:
    """collective_mismatch, collective_size_mismatch, p2p_deadlock and collective_stalled by recorder dumps.

    A rank without a dump is named where others wait for it. Live, a collective must have been open for longer than this
    job's pauses and the patience: dumps of a job in motion show open collectives as well.
    """
    if not job_status.job.recorders:
        return
    matched = job_status.job.once(matched_dumps)
    yield from (_differs(job_status.job, differs, matched) for differs in matched.differs)
    if not matched.differs:
        found = [*_circle(job_status, matched), *_unfinished(job_status, matched), *_stayed_away(job_status, matched)]
        yield from found or _stalled(job_status, matched)


def _old_enough(job_status: JobStatus, age: float | None) -> bool:
    return not job_status.job.live or job_status.hung or (age is not None and age >= job_status.alarm_after)


def _age(matched: Matched, since: Iterable[float | None]) -> float | None:
    """Seconds from the first of these launches to the last entry of any dump."""
    written, began = matched.given.at, min((at for at in since if at is not None), default=None)
    return None if written is None or began is None else written - began


def _dump(matched: Matched, rank: int, text: str) -> Evidence:
    dump = matched.given.dumps[rank]
    return Evidence(Observer.RECORDER, f"{dump.source} (rank {rank})", dump.at, text, dump.source)


def _differs(job: Job, differs: Differs, matched: Matched) -> Finding:
    """Ranks that joined one collective with different operations, sizes or types."""
    counted = differs.counted
    same = {"op": "operations", "size": f"sizes of {differs.op}", "dtype": f"types of {differs.op}"}[differs.what]
    told = listed([f"rank {rank} {value}" for rank, value in sorted(counted.odd.items())])
    others = counted.tied and not differs.tied
    right = ranks_text(set(counted.odd_ranks) - set(differs.accused)) if others else ""
    why = f"; at that point other groups like it do as {right}" if others else ""
    undumped = [rank.rank for rank in job.ranks if rank.rank not in matched.given.dumps]
    return Finding(
        "collective_mismatch" if differs.what == "op" else "collective_size_mismatch", "critical",
        0.6 if differs.tied else 0.75 if counted.tied else 0.95,
        f"different {same} at collective #{differs.seq} of group {differs.group.label}: {told}, "
        f"{ranks_text(counted.usual_ranks)} {counted.usual}{why}"
        f"{f'; no dump of {ranks_text(undumped)}' if undumped else ''}",
        ranks=differs.accused, nodes=homes(job, differs.accused),
        evidence=tuple(
            _dump(matched, rank, f"#{differs.seq}: {counted.odd.get(rank, counted.usual)}")
            for rank in (*sorted(counted.odd), *counted.usual_ranks)[:4]
        ),
        advice=CODE,
    )  # fmt: skip


def _circle(job_status: JobStatus, matched: Matched) -> Iterator[Finding]:
    """p2p_deadlock. A receive may have been posted early, so a rank in the circle may be held up elsewhere."""
    waits = [edge for edge in matched.edges if edge.waiter in matched.circle and edge.certain]
    if not waits or not _old_enough(job_status, _age(matched, (edge.since for edge in waits))):
        return
    told = [f"rank {edge.waiter} {'sends to' if edge.operation == 'send' else 'receives from'} "
            f"{ranks_text(edge.for_ranks)}" for edge in waits]  # fmt: skip
    yield Finding(
        "p2p_deadlock", "critical", 0.8, f"sends and receives wait in a circle: {listed(told)}",
        ranks=matched.circle, nodes=homes(job_status.job, matched.circle),
        evidence=tuple(_dump(matched, edge.waiter, _open(edge)) for edge in waits[:4]),
        advice="Pair sends with receives: even ranks send first, odd ones receive first; or use batch_isend_irecv. "
        "Where receives are posted early, look at the stacks of these ranks first.",
    )  # fmt: skip


def _unfinished(job_status: JobStatus, matched: Matched) -> Iterator[Finding]:
    """collective_stalled of ranks that have open what other members of the group have completed."""
    if not matched.unfinished:
        return
    given, first, job = matched.given, matched.unfinished[0], job_status.job
    ranks = tuple(one.rank for one in matched.unfinished)
    since = (given.by_group[one.group][one.rank].entries[one.seq].created for one in matched.unfinished)
    if _old_enough(job_status, _age(matched, since)):
        others = {edge.waiter for edge in matched.edges} - {*ranks}
        yield Finding(
            "collective_stalled", "critical", 0.85 if len(ranks) * 2 < len(given.dumps) else SCHEDULED,
            f"{ranks_on(ranks, homes(job, ranks))} {_have(ranks)} not finished {first.op} #{first.seq} of group "
            f"{first.group.label}, which {ranks_text(first.completed)} {_have(first.completed)}: the GPU stands still; "
            f"{count(len(others), 'other')} wait",
            ranks=ranks, nodes=homes(job, ranks),
            evidence=tuple(
                _dump(matched, rank, f"{one.op} #{one.seq} of group {one.group.label} {state}")
                for one in matched.unfinished[:3]
                for rank, state in ((one.rank, "open"), (one.completed[0], "completed"))
            ),
            advice=OWN_GPU,
        )  # fmt: skip


def _have(ranks: Sequence[int]) -> str:
    return "has" if len(ranks) == 1 else "have"


def _stayed_away(job_status: JobStatus, matched: Matched) -> Iterator[Finding]:
    """Ranks at which all waits end; those without a dump where nobody of whom there is one is to blame."""
    job = job_status.job
    culprits = () if matched.unfinished else _ends(job_status, matched) or matched.undumped
    if not matched.culprits:
        # of ranks that failed by themselves, or spoke at their exit, something else tells why they wrote no dump
        failed = {end.rank for end in ended_ranks(job_status) if not end.cause.consequence}
        culprits = () if set(culprits) <= failed | left_at_exit(job).keys() else culprits
    direct = [edge for edge in matched.edges if set(edge.for_ranks) & set(culprits)]
    direct.sort(key=lambda edge: (not edge.certain, edge.p2p, edge.since or 0.0, edge.waiter))
    age = _age(matched, (edge.since for edge in direct))
    if not direct or not _old_enough(job_status, age):
        return
    first = direct[0]
    named = tuple(rank for rank in culprits if rank in first.for_ranks)
    rest = [rank for rank in culprits if rank not in named]
    waiting = {edge.waiter for edge in matched.edges}
    own_gpu = not waiting & set(culprits) and all(_waits_for_own_gpu(job_status, matched, rank) for rank in culprits)
    last = max((own[rank].completed for group, own in matched.given.by_group.items() if group.label == first.group
                for rank in named if rank in own and not first.p2p), default=-1)  # fmt: skip
    finished = f", having finished #{last}" if last >= 0 else ""
    yield Finding(
        "collective_stalled" if own_gpu else "collective_mismatch", "critical",
        0.8 if own_gpu else _weight(matched, direct),
        f"{ranks_on(named, homes(job, named))} did not {_missed(first)}{finished}"
        f"{f'; and {ranks_text(rest)} not what others wait in' if rest else ''}"
        f"{'' if matched.culprits else ' (no dump of it, which is evidence: it may hang in its own shutdown)'}"
        f"{', as it waits for what its own GPU does not finish' if own_gpu else ''}; "
        f"{count(len(waiting - set(culprits)), 'other')} wait{f' for {duration(age)}' if age and age > 1 else ''}",
        ranks=culprits, nodes=homes(job, culprits),
        evidence=(
            *(_dump(matched, rank, _last(matched, rank)) for rank in culprits[:2] if rank in matched.given.dumps),
            *(_dump(matched, edge.waiter, _open(edge)) for edge in direct[:3]),
        ),
        advice=OWN_GPU if own_gpu else CODE,
    )  # fmt: skip


def _ends(job_status: JobStatus, matched: Matched) -> tuple[int, ...]:
    """Culprits of the dumps, each followed along the sends and receives that its frames say it waits in.

    A rank that waits in a send or receive is no culprit where a rank is left that does not.
    """
    between = {status.rank: status for status in job_status.of("waiting") if status.activity is not None}
    peers = peers_awaited(between.values())
    ends = set()
    for rank in matched.culprits:
        way = [rank]
        while (peer := peers.get(way[-1])) is not None and peer not in way:
            way.append(peer)
        ends.add(rank if peer is not None else way[-1])
    in_pairs = {rank for rank, status in between.items() if status.activity and status.activity.kind == "p2p"}
    waiting = in_pairs | {edge.waiter for edge in matched.edges if edge.certain}
    return tuple(sorted(ends - waiting or matched.culprits))


def _waits_for_own_gpu(job_status: JobStatus, matched: Matched, rank: int) -> bool:
    """Whether a rank waits for its GPU while no collective of its own is open: its code has not erred."""
    status, last = job_status.statuses.get(rank), matched.given.last_of(rank)
    if status is None or status.activity is None or last is None:
        return False
    return status.activity.kind == "device" and status.load != "idle" and last.condition == "done"


def _weight(matched: Matched, direct: Sequence[WaitEdge]) -> float:
    if matched.torn:
        return 0.6  # one of two is right
    if not matched.culprits:
        return 0.65
    if not matched.timed and any(matched.given.histories[rank].partial for rank in matched.culprits):
        return SCHEDULED
    return 0.8 if any(edge.why == "not dumped" for edge in (*direct, *matched.edges)) else 0.92


def _stalled(job_status: JobStatus, matched: Matched) -> Iterator[Finding]:
    """collective_stalled: all ranks of a group are in one collective, and none completed it.

    Of a group of which one dump tells, others may not have come yet.
    """
    job = job_status.job
    for one in matched.stalled:
        if len(one.ranks) < 2 or not _old_enough(job_status, one.age):
            continue
        if (odd := odd_size(matched.given, one)) is not None:
            yield _of_another_size(job, one, odd, matched)
        else:
            yield Finding(
                "collective_stalled", "critical", 0.8 if matched.timed else SCHEDULED,
                f"all {count(len(one.ranks), 'rank')} {'joined' if matched.timed else 'launched'} {one.op} "
                f"#{one.seq} of group {one.group.label}, and none completed it",
                ranks=one.ranks, nodes=homes(job, one.ranks),
                evidence=tuple(_dump(matched, rank, f"{one.op} #{one.seq} open") for rank in one.ranks[:4]),
                advice="The code of all ranks agrees: suspect the network or a GPU. Run the allreduce probe.",
            )  # fmt: skip


def _of_another_size(job: Job, one: Stalled, odd: Vote[str], matched: Matched) -> Finding:
    """Sizes may differ in this operation: likely wrong where NCCL also met a message of another size."""
    (rank, size), *_ = odd.odd.items()
    truncated = warned(job, "truncated")
    sizes = (_dump(matched, each, f"#{one.seq}: {odd.odd.get(each, odd.usual)}") for each in one.ranks[:4])
    return Finding(
        "collective_size_mismatch", "critical", 0.77 if truncated else 0.5,
        f"rank {rank} alone gave {one.op} #{one.seq} of group {one.group.label} another size: {size}, the others "
        f"{odd.usual}; none completed it",
        ranks=(rank,), nodes=homes(job, (rank,)), evidence=(*sizes, *lines(truncated[:1])),
        advice="Each rank must send to each what that one expects of it: compare input_split_sizes and "
        "output_split_sizes.",
    )  # fmt: skip


def _missed(edge: WaitEdge) -> str:
    """What a waiting operation lacks."""
    if edge.operation == "send":
        return f"launch the receive from rank {edge.waiter} of group {edge.group}"
    if edge.operation == "recv":
        return f"launch the send to rank {edge.waiter} of group {edge.group}"
    return f"join {edge.operation} #{edge.seq} of group {edge.group}"


def _open(edge: WaitEdge) -> str:
    way = {"send": " to ", "recv": " from "}.get(edge.operation)
    return f"{edge.operation}{way}{ranks_text(edge.for_ranks)} open" if way else f"{edge.operation} #{edge.seq} open"


def _last(matched: Matched, rank: int) -> str:
    last = matched.given.last_of(rank)
    if last is None:
        return "nothing launched"
    return f"launched last: {last.operation} #{last.seq} of group {last.group} ({last.condition})"
