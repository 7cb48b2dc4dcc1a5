"""What flight recorder dumps prove: ranks that did not join, calls that differ, circles of sends and receives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hangtop.diagnosis.failures.first import ended_ranks, left_at_exit
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.groups.edges import Waits, last_of
from hangtop.diagnosis.groups.recorder import Differs, Matched, odd_sizes
from hangtop.diagnosis.groups.witnesses import matched_dumps
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, duration, listed, ranks_on, ranks_text
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.rules.recorder_text import ends_beyond, of_another_size, other_places
from hangtop.diagnosis.waits.job_status import JobStatus

OWN_GPU = (
    "Suspect a kernel on that GPU that does not end, or the GPU itself: look at its power, clocks and Xid errors. A "
    "CUDA core dump tells which kernel it is in."
)
SCHEDULED = 0.7
"""Most weight where recorders tell of what was scheduled alone: whether a GPU has begun it nobody knows."""
CODE = "Look for a collective behind `if rank == …`, ranks with a different number of batches, or shapes that differ."


def flight_recorder(job_status: JobStatus) -> Iterator[Finding]:
    """collective_mismatch, collective_size_mismatch, p2p_deadlock and collective_stalled by recorder dumps.

    Needs dumps of the job's ranks, as many as there are; a rank without one is named where others wait for it; one that
    waits for its own GPU and for nothing else has not erred. Live, a collective must have been open for longer than
    this job's pauses and the patience.
    """
    if not job_status.job.recorders:
        return
    matched = job_status.job.once(matched_dumps)
    for differs in matched.differs:
        yield _differs(job_status.job, differs, matched)
    found = [*_circle(job_status, matched), *_unfinished(job_status, matched), *_stayed_away(job_status, matched)]
    if not matched.differs:
        yield from found
    for stop in matched.stalled:
        # of a group of which one dump tells, others may not have come yet
        if len(stop.waiting) > 1 and _old_enough(job_status, stop.age) and not found and not matched.differs:
            odd = odd_sizes(matched.given, stop)
            if odd is not None:
                told = (_dump(matched, rank, f"#{stop.seq}: {odd.odd.get(rank, odd.usual)}") for rank in stop.waiting)
                yield of_another_size(job_status.job, stop, odd, told)
                continue
            yield Finding(
                "collective_stalled", "critical", 0.8 if matched.timed else SCHEDULED,
                f"all {count(len(stop.waiting), 'rank')} {'joined' if matched.timed else 'launched'} {stop.op} "
                f"#{stop.seq} of group {stop.group.label}, and none completed it",
                ranks=stop.waiting, nodes=homes(job_status.job, stop.waiting),
                evidence=tuple(_dump(matched, rank, f"{stop.op} #{stop.seq} open") for rank in stop.waiting[:4]),
                advice="The code of all ranks agrees: suspect the network or a GPU. Run the allreduce probe.",
            )  # fmt: skip


def _old_enough(job_status: JobStatus, age: float | None) -> bool:
    """A dump of a job in motion shows open collectives as well: live, they must have been open for long."""
    if not job_status.job.live:
        return True
    return job_status.hung or (age is not None and age >= job_status.alarm_after)


def _differs(job: Job, differs: Differs, matched: Matched) -> Finding:
    counted = differs.counted
    ranks = differs.accused
    same = {"op": "operations", "size": f"sizes of {differs.op}", "dtype": f"types of {differs.op}"}[differs.what]
    told = listed([f"rank {rank} {value}" for rank, value in sorted(counted.odd.items())])
    missing = _undumped(job, matched)
    alone = counted.tied and not differs.tied
    why = (
        f"; at that point other groups like it do as {ranks_text(set(counted.odd_ranks) - set(ranks))}" if alone else ""
    )
    return Finding(
        "collective_mismatch" if differs.what == "op" else "collective_size_mismatch", "critical",
        0.6 if differs.tied else 0.75 if counted.tied else 0.95,
        f"different {same} at collective #{differs.seq} of group {differs.group.label}: {told}, "
        f"{ranks_text(counted.usual_ranks)} {counted.usual}{why}{missing}",
        ranks=ranks, nodes=homes(job, ranks),
        evidence=tuple(
            _dump(matched, rank, f"#{differs.seq}: {counted.odd.get(rank, counted.usual)}")
            for rank in (*sorted(counted.odd), *counted.usual_ranks)[:4]
        ),
        advice=CODE,
    )  # fmt: skip


def _unfinished(job_status: JobStatus, matched: Matched) -> Iterator[Finding]:
    """collective_stalled of ranks that have open what other members of the group have completed."""
    if not matched.unfinished:
        return
    first = matched.unfinished[0]
    ranks = tuple(one.rank for one in matched.unfinished)
    since = (matched.given.tracks[one.group][one.rank].entries[one.seq].created for one in matched.unfinished)
    written = max((dump.at for dump in matched.given.dumps.values() if dump.at is not None), default=None)
    began = min((at for at in since if at is not None), default=None)
    if not _old_enough(job_status, None if written is None or began is None else written - began):
        return
    others = {edge.waiter for edge in matched.edges} - {*ranks}
    have = "has" if len(ranks) == 1 else "have"
    yield Finding(
        "collective_stalled", "critical", 0.85 if len(ranks) * 2 < len(matched.dumped) else SCHEDULED,
        f"{ranks_on(ranks, homes(job_status.job, ranks))} {have} not finished {first.op} "
        f"#{first.seq} of group {first.group.label}, which {ranks_text(first.completed)} "
        f"{'has' if len(first.completed) == 1 else 'have'}: the GPU stands still; {count(len(others), 'other')} wait",
        ranks=ranks, nodes=homes(job_status.job, ranks),
        evidence=tuple(
            line
            for one in matched.unfinished[:3]
            for line in (
                _dump(matched, one.rank, f"{one.op} #{one.seq} of group {one.group.label} open"),
                _dump(matched, one.completed[0], f"{one.op} #{one.seq} of group {one.group.label} completed"),
            )
        ),
        advice=OWN_GPU,
    )  # fmt: skip


def _circle(job_status: JobStatus, matched: Matched) -> Iterator[Finding]:
    """p2p_deadlock: a receive may have been posted early, so that a rank in the circle may be held up elsewhere."""
    circle = matched.circle
    waits = [edge for edge in matched.edges if edge.waiter in circle and edge.certain]
    if not waits or not _old_enough(job_status, _age(matched, waits)):
        return
    told = [f"rank {edge.waiter} {'sends to' if edge.operation == 'send' else 'receives from'} "
            f"{ranks_text(edge.for_ranks)}" for edge in waits]  # fmt: skip
    yield Finding(
        "p2p_deadlock", "critical", 0.8, f"sends and receives wait in a circle: {listed(told)}",
        ranks=circle, nodes=homes(job_status.job, circle),
        evidence=tuple(_dump(matched, edge.waiter, _open(edge)) for edge in waits[:4]),
        advice="Pair sends with receives: even ranks send first, odd ones receive first; or use batch_isend_irecv. "
        "Where receives are posted early, look at the stacks of these ranks first.",
    )  # fmt: skip


def _stayed_away(job_status: JobStatus, matched: Matched) -> Iterator[Finding]:
    """Name the ends of all waits; those without a dump where nobody who has one is to blame."""
    job = job_status.job
    if matched.unfinished:
        return
    culprits = ends_beyond(job_status, matched) or matched.undumped
    if not matched.culprits and set(culprits) <= _known_to_be_gone(job_status):
        return  # why they are is what holds the others up
    direct = [edge for edge in matched.edges if set(edge.for_ranks) & set(culprits)]
    direct.sort(key=lambda edge: (not edge.certain, edge.operation in ("send", "recv"), edge.since or 0.0, edge.waiter))
    if not direct or not _old_enough(job_status, _age(matched, direct)):
        return
    first = direct[0]
    stop = next((stop for stop in matched.not_joined if (stop.group.label, stop.seq) == (first.group, first.seq)), None)
    finished = (
        f", having finished #{stop.finished}" if stop and stop.finished is not None and stop.finished >= 0 else ""
    )
    undumped = "" if matched.culprits else " (no dump of it, which is evidence: it may hang in its own shutdown)"
    age = _age(matched, direct)
    waited = f" for {duration(age)}" if age is not None and age > 1 else ""
    waiting = {edge.waiter for edge in matched.edges}
    named = tuple(rank for rank in culprits if rank in first.for_ranks)
    pair = first.operation in ("send", "recv")
    what = (
        f"{_other_half(first)} of group {first.group}"
        if pair
        else f"{first.operation} #{first.seq} of group {first.group}"
    )
    own_gpu = not waiting & set(culprits) and all(_waits_for_own_gpu(job_status, matched, rank) for rank in culprits)
    they = "they wait" if len(culprits) > 1 else "it waits"
    why = f", as {they} for what its own GPU does not finish" if own_gpu else ""
    kind, weight = ("collective_stalled", 0.8) if own_gpu else ("collective_mismatch", _sureness(matched, direct))
    yield Finding(
        kind, "critical", weight,
        ranks_on(named, homes(job, named)) + f" did not {'launch' if pair else 'join'} {what}{finished}"
        f"{other_places(direct, named, culprits)}{undumped}{why}; "
        f"{count(len(waiting - set(culprits)), 'other')} wait{waited}",
        ranks=culprits, nodes=homes(job, culprits),
        evidence=(
            *(_dump(matched, rank, _last(matched, rank)) for rank in culprits[:2] if rank in matched.dumped),
            *(_dump(matched, edge.waiter, _open(edge)) for edge in direct[:3]),
        ),
        advice=OWN_GPU if own_gpu else CODE,
    )  # fmt: skip


def _known_to_be_gone(job_status: JobStatus) -> set[int]:
    """Ranks of which something else tells why they wrote no dump: they failed by themselves, or spoke at their exit."""
    failed = {end.rank for end in ended_ranks(job_status) if not end.cause.consequence and end.rank is not None}
    return failed | left_at_exit(job_status.job).keys()


def _waits_for_own_gpu(job_status: JobStatus, matched: Matched, rank: int) -> bool:
    """Whether a rank is met waiting for its GPU while no collective of its own is open: its code has not erred."""
    status, last = job_status.statuses.get(rank), last_of(matched.given).get(rank)
    doing = status.activity if status is not None else None
    on_gpu = status is not None and doing is not None and doing.kind == "device" and status.load != "idle"
    return on_gpu and last is not None and last.condition == "done"


def _sureness(matched: Matched, direct: Sequence[Waits]) -> float:
    if matched.torn:
        return 0.6  # one of two is right
    if not matched.culprits:
        return 0.65
    if not matched.timed and any(matched.given.courses[rank].partial for rank in matched.culprits):
        return SCHEDULED
    return 0.8 if any(edge.why == "not dumped" for edge in (*direct, *matched.edges)) else 0.92


def _other_half(edge: Waits) -> str:
    """What a waiting send or receive lacks."""
    return f"the receive from rank {edge.waiter}" if edge.operation == "send" else f"the send to rank {edge.waiter}"


def _open(edge: Waits) -> str:
    way = {"send": " to ", "recv": " from "}.get(edge.operation)
    return f"{edge.operation}{way}{ranks_text(edge.for_ranks)} open" if way else f"{edge.operation} #{edge.seq} open"


def _last(matched: Matched, rank: int) -> str:
    last = last_of(matched.given).get(rank)
    if last is None:
        return "nothing launched"
    return f"launched last: {last.operation} #{last.seq} of group {last.group} ({last.condition})"


def _age(matched: Matched, edges: Sequence[Waits]) -> float | None:
    """Seconds from the first of these launches to the last entry of any dump."""
    written = max((dump.at for dump in matched.given.dumps.values() if dump.at is not None), default=None)
    since = min((edge.since for edge in edges if edge.since is not None), default=None)
    return None if written is None or since is None else written - since


def _undumped(job: Job, matched: Matched) -> str:
    absent = [rank.rank for rank in job.ranks if rank.rank not in matched.dumped]
    return f"; no dump of {ranks_text(absent)}" if absent else ""


def _dump(matched: Matched, rank: int, text: str) -> Evidence:
    dump = matched.given.dumps[rank]
    return Evidence(f"{dump.source} (rank {rank})", dump.at, text)
