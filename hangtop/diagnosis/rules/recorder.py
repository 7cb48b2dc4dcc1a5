"""What flight recorder dumps prove: ranks that did not join, calls that differ, circles of sends and receives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hangtop.diagnosis.collectives.progress import Operation, WaitEdge, vote
from hangtop.diagnosis.collectives.recorder import Differs, Matched
from hangtop.diagnosis.collectives.sources import matched_dumps, waits_of
from hangtop.diagnosis.evidence.events import lines, warned
from hangtop.diagnosis.failures.first import ended_ranks, left_at_exit
from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, duration, listed, of_several, ranks_on, ranks_text, who_wait
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.rules.not_launched import CODE
from hangtop.diagnosis.waits.job_status import JobStatus

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


def _age(job_status: JobStatus, matched: Matched, since: Iterable[float | None]) -> float | None:
    """Seconds from the first of these launches to the last entry of any dump; None where that is not long enough."""
    written, began = matched.at, min((at for at in since if at is not None), default=None)
    age = 0.0 if written is None or began is None else written - began
    return age if not job_status.job.live or job_status.hung or age >= job_status.alarm_after else None


def _others_wait(job_status: JobStatus, culprits: Iterable[int]) -> str:
    """``7 others wait``, by dumps, stacks and all other sources together."""
    waiting = {edge.waiter for edge in job_status.job.once(waits_of)}
    waiting.update(status.rank for status in job_status.of("waiting", "on_gpu"))
    return who_wait(waiting - set(culprits), "other")


def _dump(matched: Matched, rank: int, text: str) -> Evidence:
    dump = matched.dumps[rank]
    return Evidence(Observer.RECORDER, f"{dump.source} (rank {rank})", dump.at, text, dump.source)


def _differs(job: Job, differs: Differs, matched: Matched) -> Finding:
    """Ranks that joined one collective with different operations, sizes or types."""
    what, counted = differs.how
    same = {"name": "operations", "size": f"sizes of {differs.op}", "dtype": f"types of {differs.op}"}[what]
    told = listed([f"rank {rank} {value}" for rank, value in sorted(counted.odd.items())])
    undumped = [rank.rank for rank in job.ranks if rank.rank not in matched.dumps]
    return Finding(
        "collective_mismatch" if what == "name" else "collective_size_mismatch", "critical",
        0.6 if counted.tied else 0.95,
        f"different {same} at collective #{differs.seq} of group {differs.group.label}: {told}, "
        f"{ranks_text(counted.usual_ranks)} {counted.usual}"
        f"{f'; no dump of {ranks_text(undumped)}' if undumped else ''}",
        ranks=counted.odd_ranks, nodes=homes(job, counted.odd_ranks),
        evidence=tuple(
            _dump(matched, rank, f"#{differs.seq}: {counted.odd.get(rank, counted.usual)}")
            for rank in (*sorted(counted.odd), *counted.usual_ranks)[:4]
        ),
        advice=CODE,
    )  # fmt: skip


def _circle(job_status: JobStatus, matched: Matched) -> Iterator[Finding]:
    """p2p_deadlock. A receive may have been posted early, so a rank in the circle may be held up elsewhere."""
    waits = [edge for edge in matched.edges if edge.waiter in matched.circle and edge.certain]
    if waits and _age(job_status, matched, (edge.since for edge in waits)) is not None:
        yield Finding(
            "p2p_deadlock", "critical", 0.8,
            f"sends and receives wait in a circle: {listed([f'rank {edge.waiter} {_open(edge)}' for edge in waits])}",
            ranks=matched.circle, nodes=homes(job_status.job, matched.circle),
            evidence=tuple(_dump(matched, edge.waiter, _open(edge)) for edge in waits[:4]),
            advice="Pair sends with receives: even ranks send first, odd ones receive first; or use batch_isend_irecv. "
            "Where receives are posted early, look at the stacks of these ranks first.",
        )  # fmt: skip


def _unfinished(job_status: JobStatus, matched: Matched) -> Iterator[Finding]:
    """collective_stalled of ranks that have open what other members of the group have completed."""
    ranks = tuple(one.rank for one in matched.unfinished)
    if ranks and _age(job_status, matched, (one.operation.since for one in matched.unfinished)) is not None:
        first, on = matched.unfinished[0], homes(job_status.job, ranks)
        yield Finding(
            "collective_stalled", "critical", 0.85 if len(ranks) * 2 < len(matched.dumps) else SCHEDULED,
            f"{ranks_on(ranks, on)} {of_several('has', len(ranks))} not finished {_told(first.operation)} of group "
            f"{first.group.label}, which {ranks_text(first.completed)} {of_several('has', len(first.completed))}: "
            f"the GPU stands still; {_others_wait(job_status, ranks)}",
            ranks=ranks, nodes=on,
            evidence=tuple(
                _dump(matched, rank, f"{_told(one.operation)} of group {one.group.label} {state}")
                for one in matched.unfinished[:3]
                for rank, state in ((one.rank, "open"), (one.completed[0], "completed"))
            ),
            advice=OWN_GPU,
        )  # fmt: skip


def _stayed_away(job_status: JobStatus, matched: Matched) -> Iterator[Finding]:
    """Ranks at which all waits end; those without a dump where nobody of whom there is one is to blame."""
    job = job_status.job
    if matched.unfinished:
        return
    # gloo's recorder keeps no sends and receives: a rank that waits in one by its frames waits for others itself
    in_pairs = {one.rank for one in job_status.of("waiting") if one.activity and one.activity.kind == "p2p"}
    culprits = tuple(rank for rank in matched.culprits if rank not in in_pairs) or matched.culprits
    if not culprits:
        # of ranks that failed by themselves, or spoke at their exit, something else tells why they wrote no dump
        failed = {end.rank for end in ended_ranks(job_status) if not end.cause.consequence} | left_at_exit(job).keys()
        culprits = () if set(matched.undumped) <= failed else matched.undumped
    direct = [edge for edge in matched.edges if set(edge.for_ranks) & set(culprits)]
    direct.sort(key=lambda edge: (not edge.certain, edge.p2p, edge.since or 0.0, edge.waiter))
    age = _age(job_status, matched, (edge.since for edge in direct))
    if not direct or age is None:
        return
    first = direct[0]
    named = tuple(rank for rank in culprits if rank in first.for_ranks)
    rest = [rank for rank in culprits if rank not in named]
    own_gpu = all(_waits_for_own_gpu(job_status, matched, rank) for rank in culprits)
    yield Finding(
        "collective_stalled" if own_gpu else "collective_mismatch", "critical",
        0.8 if own_gpu else _weight(matched, direct),
        f"{ranks_on(named, homes(job, named))} did not {_missed(first)} of group {first.group}"
        f"{f'; and {ranks_text(rest)} not what others wait in' if rest else ''}"
        f"{'' if matched.culprits else ' (no dump of it, which is evidence: it may hang in its own shutdown)'}"
        f"{', as it waits for what its own GPU does not finish' if own_gpu else ''}; "
        f"{_others_wait(job_status, culprits)}{f' for {duration(age)}' if age > 1 else ''}",
        ranks=culprits, nodes=homes(job, culprits),
        evidence=(
            *(_dump(matched, rank, _last(matched, rank)) for rank in culprits[:2] if rank in matched.dumps),
            *(_dump(matched, edge.waiter, _open(edge)) for edge in direct[:3]),
        ),
        advice=OWN_GPU if own_gpu else CODE,
    )  # fmt: skip


def _waits_for_own_gpu(job_status: JobStatus, matched: Matched, rank: int) -> bool:
    """Whether a rank waits for its GPU while no collective of its own is open: its code has not erred."""
    status, history = job_status.statuses.get(rank), matched.histories.get(rank)
    if status is None or status.activity is None or history is None:
        return False
    in_groups = any(rank in one.waiting for one in matched.progress.values())
    is_open = in_groups or any(op.condition == "open" for op in history.p2p)
    return status.activity.kind == "device" and status.load != "idle" and not is_open


def _weight(matched: Matched, direct: Iterable[WaitEdge]) -> float:
    if matched.torn:
        return 0.6  # one of two is right
    if not matched.culprits:
        return 0.65
    if not matched.timed and any(matched.histories[rank].partial for rank in matched.culprits):
        return SCHEDULED
    return 0.8 if any(edge.why == "not dumped" for edge in (*direct, *matched.edges)) else 0.92


def _stalled(job_status: JobStatus, matched: Matched) -> Iterator[Finding]:
    """collective_stalled: all ranks of a group are in one collective, and none completed it.

    Of a group of which one dump tells, others may not have come yet. A rank that alone gave another size, where sizes
    may differ, is wrong where NCCL also met a message of another size: collective_size_mismatch.
    """
    job = job_status.job
    for group in matched.stalled:
        waiting = matched.progress[group].waiting
        if len(waiting) < 2 or _age(job_status, matched, (one.since for one in waiting.values())) is None:
            continue
        truncated, sizes = warned(job, "truncated"), vote({rank: one.size for rank, one in waiting.items()})
        alone = sizes.odd if truncated and sizes is not None and len(sizes.odd) == 1 and not sizes.tied else {}
        odd = "".join(f"; rank {rank} alone gave {size}" for rank, size in alone.items())
        ranks = tuple(alone or sorted(waiting))
        yield Finding(
            "collective_size_mismatch" if alone else "collective_stalled", "critical",
            0.77 if matched.timed or alone else SCHEDULED,
            f"all {count(len(waiting), 'rank')} {'joined' if matched.timed else 'launched'} "
            f"{_told(waiting[ranks[0]])} of group {group.label}, and none completed it{odd}",
            ranks=ranks, nodes=homes(job, ranks),
            evidence=(*(_dump(matched, rank, f"{_told(waiting[rank])} open, {waiting[rank].size}")
                        for rank in tuple(dict.fromkeys((*ranks, *sorted(waiting))))[:4]), *lines(truncated[:1])),
            advice="The code of all ranks agrees: suspect the network or a GPU, or, in an all_to_all, sizes that "
            "differ (input_split_sizes). Run the allreduce probe.",
        )  # fmt: skip


def _missed(edge: WaitEdge) -> str:
    """What a waiting operation lacks."""
    other = {"send": "receive from", "recv": "send to"}.get(edge.operation)
    return f"launch the {other} rank {edge.waiter}" if other else f"join {edge.operation} #{edge.seq}"


def _open(edge: WaitEdge) -> str:
    way = {"send": " to ", "recv": " from "}.get(edge.operation)
    return f"{edge.operation}{way}{ranks_text(edge.for_ranks)} open" if way else f"{edge.operation} #{edge.seq} open"


def _told(operation: Operation) -> str:
    return f"{operation.name} #{operation.seq}"


def _last(matched: Matched, rank: int) -> str:
    """``launched last: all_reduce #6 (completed), at train_step (/job/loop.py:40)``, of the user's own frames."""
    launched = matched.dumps[rank].collectives
    if not launched:
        return "launched nothing"
    one, torch = launched[-1], ("site-packages", "/torch/")
    own = next((frame for frame in one.frames if not any(word in frame.file for word in torch)), None)
    where = f", at {own.name} ({own.file}:{own.line})" if own is not None else ""
    return f"launched last: {one.op} #{one.seq} ({one.state}){where}"


STATUS_RULES = (flight_recorder,)
