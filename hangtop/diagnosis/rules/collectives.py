"""What flight recorders, NCCL RAS and NCCL's own logs say about who is where in the order of collectives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from collectors.samples.logs import CommProgress
from hangtop.diagnosis.case import Case
from hangtop.diagnosis.collectives import launched, ras
from hangtop.diagnosis.collectives.owners import Owners
from hangtop.diagnosis.collectives.recorder import Differs, Matched, NotJoined, match
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.words import count, duration, listed, on_nodes, ranks_text, who

CODE = "Look for a collective behind `if rank == …`, ranks with a different number of batches, or shapes that differ."


def flight_recorder(case: Case) -> Iterator[Finding]:
    """collective_mismatch, collective_size_mismatch, p2p_deadlock and collective_stalled by flight recorder dumps.

    Needs dumps of the job's ranks, as many as there are; a rank without one is named where others wait for it. Live, a
    collective must have been open for longer than this job's pauses and the patience.
    """
    if not case.job.recorders:
        return
    matched = match(case.job.recorders)
    for differs in matched.differs:
        yield _differs(case.job, differs, matched)
    waiting = [stop for stop in matched.not_joined if _old_enough(case, stop)]
    if waiting and not matched.differs:
        yield from _not_joined(case.job, waiting, matched)
    if matched.unanswered and matched.unanswered.circle:
        circle = matched.unanswered.circle
        wants = [f"rank {rank} {'sends to' if side == 'send' else 'receives from'} rank {peer}"
                 for rank, (side, peer) in sorted(matched.unanswered.wants.items()) if rank in circle]  # fmt: skip
        yield Finding(
            "p2p_deadlock", "critical", 0.93, f"sends and receives wait in a circle: {listed(wants)}",
            ranks=circle, nodes=_homes(case.job, circle),
            evidence=tuple(_dump(case.job, rank, "open send or receive") for rank in circle[:4]),
            advice="Pair sends with receives: even ranks send first, odd ones receive first; or use batch_isend_irecv.",
        )  # fmt: skip
    for stop in matched.stalled:
        if _old_enough(case, stop) and not waiting and not matched.differs:
            yield Finding(
                "collective_stalled", "critical", 0.8,
                f"all {count(len(stop.waiting), 'rank')} joined {stop.op} #{stop.seq} of group {stop.group}, and none "
                "completed it",
                ranks=stop.waiting, nodes=_homes(case.job, stop.waiting),
                evidence=tuple(_dump(case.job, rank, f"{stop.op} #{stop.seq} open") for rank in stop.waiting[:4]),
                advice="The code of all ranks agrees: suspect the network or a GPU. Run the allreduce probe.",
            )  # fmt: skip


def _old_enough(case: Case, stop: NotJoined) -> bool:
    """A dump of a job in motion shows open collectives as well: live, they must have been open for long."""
    if not case.job.live:
        return True
    return case.hung or (stop.age is not None and stop.age >= case.alarm_after)


def _differs(job: Job, differs: Differs, matched: Matched) -> Finding:
    counted = differs.counted
    ranks = counted.odd_ranks
    same = {"op": "operations", "size": f"sizes of {differs.op}", "dtype": f"types of {differs.op}"}[differs.what]
    told = listed([f"rank {rank} {value}" for rank, value in sorted(counted.odd.items())])
    missing = _undumped(job, matched)
    return Finding(
        "collective_mismatch" if differs.what == "op" else "collective_size_mismatch", "critical",
        0.75 if counted.tied else 0.95,
        f"different {same} at collective #{differs.seq} of group {differs.group}: {told}, "
        f"{ranks_text(counted.usual_ranks)} {counted.usual}{missing}",
        ranks=ranks, nodes=_homes(job, ranks),
        evidence=tuple(
            _dump(job, rank, f"#{differs.seq}: {counted.odd.get(rank, counted.usual)}")
            for rank in (*sorted(counted.odd), *counted.usual_ranks)[:4]
        ),
        advice=CODE,
    )  # fmt: skip


def _not_joined(job: Job, stops: Sequence[NotJoined], matched: Matched) -> Iterator[Finding]:
    """Name the ends of all waits; those without a dump where nobody who has one is to blame."""
    undumped = tuple(sorted({rank for stop in stops for rank in stop.undumped}))
    culprits = matched.culprits or undumped
    if not culprits:
        return
    stop = next((stop for stop in stops if set(stop.absent) & set(culprits)), stops[0])
    sure = 0.92 if matched.culprits and not undumped else 0.8 if matched.culprits else 0.65
    finished = f", having finished #{stop.finished}" if stop.finished is not None and stop.finished >= 0 else ""
    silent = "" if matched.culprits else " (no dump of it, which is evidence: it may hang in its own shutdown)"
    waited = f" for {duration(stop.age)}" if stop.age is not None and stop.age > 1 else ""
    yield Finding(
        "collective_mismatch", "critical", sure,
        f"{ranks_text(culprits)} {on_nodes(_homes(job, culprits))}".rstrip()
        + f" did not join {stop.op} #{stop.seq} of group {stop.group}{finished}{silent}; "
        f"{count(len(stop.waiting), 'other')} wait in it{waited}",
        ranks=culprits, nodes=_homes(job, culprits),
        evidence=(
            *(_dump(job, rank, f"last finished #{stop.finished}") for rank in culprits[:2] if rank in matched.dumped),
            *(_dump(job, rank, f"{stop.op} #{stop.seq} open") for rank in stop.waiting[:3]),
        ),
        advice=CODE,
    )  # fmt: skip


def _undumped(job: Job, matched: Matched) -> str:
    absent = [rank.rank for rank in job.ranks if rank.rank not in matched.dumped]
    return f"; no dump of {ranks_text(absent)}" if absent else ""


def _dump(job: Job, rank: int, text: str) -> Evidence:
    dump = next((dump for dump in reversed(job.recorders) if dump.rank == rank), None)
    source = dump.source if dump else "flight recorder"
    return Evidence(f"{source} (rank {rank})", dump.at if dump else None, text)


def ras_behind(case: Case) -> Iterator[Finding]:
    """collective_mismatch by NCCL RAS: counts of one communicator differ, and stood still over three answers.

    Needs three RAS answers; RAS counts no sends and receives, so an even picture proves nothing.
    """
    for one in ras.behind(case.job.ras):
        owners = case.job.once(Owners)
        least = [one.members[number] for number in one.least]
        most = len(one.members) - len(least)
        ranks = owners.of_members(least)
        values = {**dict.fromkeys(one.counted.usual_ranks, one.counted.usual), **one.counted.odd}
        yield Finding(
            "collective_mismatch", "critical", 0.85 if len(least) <= most else 0.7,
            f"{who(ranks, f'{len(least)} processes')} launched {min(values.values())} {one.op}, "
            f"{count(most, 'other')} {max(values.values())}, and nothing moves",
            ranks=ranks, nodes=_homes(case.job, ranks),
            evidence=(Evidence(f"NCCL RAS, communicator {one.comm}", one.at, _counts(one)),),
            advice="These ranks have not launched what the others wait in: look at their stacks.",
        )  # fmt: skip


def ras_away(case: Case) -> Iterator[Finding]:
    """rank_missing by NCCL RAS: ranks that every one of the last answers could not find.

    Needs two RAS answers or more.
    """
    for one in ras.away(case.job.ras):
        owners = case.job.once(Owners)
        ranks = owners.of_members(one.members)
        states = listed([f"rank {m.rank} of it ({m.host}, pid {m.pid}) {m.state}" for m in one.members])
        yield Finding(
            "rank_missing", "critical", 0.8,
            f"NCCL does not find {who(ranks, count(len(one.members), 'process', 'processes'))} any more",
            ranks=ranks, nodes=_homes(case.job, ranks),
            evidence=(Evidence(f"NCCL RAS, communicator {one.comm}", one.at, states),),
            advice="The process ended or its node is cut off: look at it first.",
        )  # fmt: skip


def nccl_log_behind(case: Case) -> Iterator[Finding]:
    """collective_mismatch and collective_size_mismatch by NCCL's COLL lines: ranks compared per communicator.

    Needs NCCL_DEBUG=INFO with the subsystem COLL on all ranks of a communicator. Live, only while the job stands still.
    """
    if case.job.live and not (case.hung or (case.job.stood_still or 0.0) >= case.alarm_after):
        return
    closed = {event.data.get("comm_id") for _, event in case.job.events_of("nccl.end")}
    for odd in launched.odd_ones(one for one in case.job.progress if one.comm not in closed):
        owners = case.job.once(Owners)
        accused = [odd.latest[number] for number in odd.accused]
        ranks = tuple(sorted(rank for one in accused if (rank := owners.of_progress(one)) is not None))
        told = listed([_told(odd, one) for one in accused])
        rest = next((one for number, one in sorted(odd.latest.items()) if number not in odd.accused), None)
        others = f", {count(len(odd.latest) - len(accused), 'other')} {_told(odd, rest, False)}" if rest else ""
        yield Finding(
            "collective_size_mismatch" if odd.what == "size" else "collective_mismatch", "critical",
            0.6 if odd.counted.tied and odd.what != "behind" else 0.8,
            f"ranks are not at the same collective: {told}{others}",
            ranks=ranks, nodes=tuple(sorted({one.host for one in accused if one.host})),
            evidence=tuple(_progress_line(odd, one) for one in (*accused[:3], *([rest] if rest else []))),
            advice=CODE,
        )  # fmt: skip


def _told(odd: launched.Odd, one: CommProgress, named: bool = True) -> str:
    size = f" of {one.elements} {one.dtype}" if odd.what == "size" else ""
    label = f"rank {one.rank if one.global_rank is None else one.global_rank} " if named else ""
    return f"{label}at {one.op} #{odd.numbers[one.rank]}{size}"


def _progress_line(odd: launched.Odd, one: CommProgress) -> Evidence:
    return Evidence(f"{one.source}:{one.line}", one.at, f"communicator {one.comm}: {_told(odd, one)}")


def _counts(one: ras.Behind) -> str:
    values = {**dict.fromkeys(one.counted.usual_ranks, one.counted.usual), **one.counted.odd}
    by_count: dict[int, list[int]] = {}
    for number, value in sorted(values.items()):
        by_count.setdefault(value, []).append(number)
    return "; ".join(f"{ranks_text(members)}: {one.op} {value}" for value, members in sorted(by_count.items()))


def _homes(job: Job, ranks: Iterable[int]) -> tuple[str, ...]:
    wanted = set(ranks)
    return tuple(sorted({rank.node for rank in job.ranks if rank.rank in wanted and rank.node}))
