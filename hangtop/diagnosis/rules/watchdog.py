"""NCCL's watchdog, and what its time-outs say about who did not come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.collectives.vote import vote
from hangtop.diagnosis.failures import number_of, text_of
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.roster import homes, known_ranks
from hangtop.diagnosis.said import hosts_in, lines, ranks_in, said
from hangtop.diagnosis.unlabelled import with_ranks
from hangtop.diagnosis.words import count, duration, listed, ranks_text

SIZED = frozenset({"ALLREDUCE", "BROADCAST", "REDUCE", "_REDUCE_SCATTER_BASE", "REDUCE_SCATTER", "_ALLGATHER_BASE"})
"""Operations that need the same number of elements on every rank."""
WHOLE = frozenset({"default_pg", "0"})
"""Names of the group of all ranks."""
FAR = 16
"""Difference of sequence numbers that those of one group seldom have when its ranks fall apart."""
UNNAMED = "These lines name no process group (torch before 2.3): ranks of several groups may stand side by side."


def watchdog_timeout(job: Job) -> Iterator[Finding]:
    """watchdog_timeout: collectives that ran into their time-out; a consequence that carries who had launched least.

    Needs the watchdog's lines. One group at a time: the rank that had enqueued least did not come; a rank that reports
    nothing at all while its peers do had nothing outstanding, so it had not come either. Where operations or sizes at
    one sequence number differ, it is a mismatch.
    """
    groups = _by_group(job)
    if not groups:
        return
    name, events = min(groups.items(), key=lambda item: (min(e.at or float("inf") for e in item[1]), item[0]))
    timeouts = [event for event in events if event.kind == "torch.watchdog_timeout"]
    mismatched = _mismatch(job, timeouts) or _apart(job, timeouts, name)
    if mismatched:
        yield mismatched
    behind, how, sure = _behind(job, events)
    first = timeouts[0] if timeouts else events[0]
    op, sequence, ran = text_of(first, "op"), number_of(first, "seq"), number_of(first, "ran_ms")
    what = f"{op}{f' #{sequence}' if sequence is not None else ''}" if op else "a collective"
    waited = f" after {duration(ran / 1000)}" if ran else ""
    group = " of an unnamed group" if not name else f" of group {name}" if len(groups) > 1 else ""
    reporting = ranks_in(events)
    on = f" on {count(len(reporting), 'rank')}" if reporting else ""
    yield Finding(
        "watchdog_timeout", "critical", sure,
        f"{what}{group} timed out{on}{waited}: " + (f"{ranks_text(behind)} {how}" if behind else how),
        ranks=behind, nodes=hosts_in(job, events) if not behind else homes(job, behind), evidence=lines(events),
        advice=(
            "The time-out is a consequence: find what kept this rank on its CPU (its last log lines, its stack)."
            if behind else "Where every rank had launched it, suspect the network, a GPU, or sizes that differ; else "
            "the one that had not is to blame: look at the logs of all ranks."
        ) + ("" if name else f" {UNNAMED}"),
    )  # fmt: skip


def _by_group(job: Job) -> dict[str, list[LogEvent]]:
    """Words about time-outs by group. torch 2.4 and 2.5 name it in the status alone, which has the same work."""
    statuses = said(job, "torch.watchdog_status")
    named = {
        (event.rank, number_of(event, "work")): text_of(event, "group_name") or text_of(event, "group")
        for event in statuses
    }
    of_work: dict[int | None, set[str]] = defaultdict(set)
    for (_, work), group in named.items():
        of_work[work].add(group)
    every = set(named.values())
    groups: dict[str, list[LogEvent]] = defaultdict(list)
    for event in with_ranks((*said(job, "torch.watchdog_timeout"), *statuses)):
        work = number_of(event, "seq")
        own = text_of(event, "group_name") or text_of(event, "group") or named.get((event.rank, work), "")
        likely = of_work[work] or every
        groups[own or (min(likely) if len(likely) == 1 else "")].append(event)
    return groups


def _apart(job: Job, timeouts: Sequence[LogEvent], name: str) -> Finding | None:
    """Ranks of one group that wait at different numbers: those ahead had left the others' collective behind.

    But for the group of all ranks, one name may stand for several groups: those whose ranks within the group are the
    same, or whose numbers lie far apart.
    """
    own: dict[int, LogEvent] = {}
    for event in timeouts:
        sequence = number_of(event, "seq")
        if event.rank is not None and sequence is not None:
            known = own.get(event.rank)
            if known is None or sequence < (number_of(known, "seq") or 0):
                own[event.rank] = event
    at = {rank: (text_of(event, "op"), number_of(event, "seq") or 0) for rank, event in own.items()}
    counted = vote(at)
    if counted is None or not counted.odd:
        return None
    whole = name in WHOLE
    numbers = {number for _, number in at.values()}
    within = [place for event in own.values() if (place := number_of(event, "group_rank")) is not None]
    several = len(set(within)) < len(within) or max(numbers) - min(numbers) > FAR
    if len(numbers) < 2 or (several and not whole):
        return None
    told = listed([f"{ranks_text(ranks)} in {op} #{number}" for (op, number), ranks in sorted(_gathered(at).items())])
    ranks = tuple(sorted(counted.odd)) if not counted.tied else tuple(sorted(at))
    return Finding(
        "collective_mismatch", "critical", 0.7 if whole else 0.55,
        f"ranks of one {'' if name else 'unnamed '}group wait at different collectives: {told}",
        ranks=ranks, nodes=homes(job, ranks), evidence=lines([own[rank] for rank in sorted(own)]),
        advice="Look for a collective behind `if rank == …` (evaluation, logging, a checkpoint of rank 0 alone), or "
        "ranks with a different number of batches." + ("" if name else f" {UNNAMED}"),
    )  # fmt: skip


def _gathered(at: Mapping[int, tuple[str, int]]) -> dict[tuple[str, int], list[int]]:
    gathered: dict[tuple[str, int], list[int]] = defaultdict(list)
    for rank, place in sorted(at.items()):
        gathered[place].append(rank)
    return gathered


def _behind(job: Job, events: Sequence[LogEvent]) -> tuple[tuple[int, ...], str, float]:
    """Ranks that had launched least, how that is known, and how surely."""
    enqueued: dict[int, int] = {}
    for event in events:
        last = number_of(event, "enqueued")
        if event.rank is not None and last is not None:
            enqueued[event.rank] = max(last, enqueued.get(event.rank, last))
    if len(set(enqueued.values())) > 1:
        least = min(enqueued.values())
        ranks = tuple(sorted(rank for rank, last in enqueued.items() if last == least))
        if len(ranks) * 2 <= len(enqueued):
            return ranks, f"had launched {least} of {max(enqueued.values())}", 0.8
    # torch 2.4 names the group in the status alone: a rank whose status has the same work reported it, too
    works = {number_of(event, "seq") for event in events} - {None}
    reported = set(ranks_in(events)) | set(
        ranks_in(event for event in said(job, "torch.watchdog_status") if number_of(event, "work") in works)
    )
    known = known_ranks(job)
    silent = tuple(sorted(known - reported))
    if silent and reported and len(silent) * 2 < len(known):
        return silent, f"{'was' if len(silent) == 1 else 'were'} waiting for nothing: had not launched it", 0.8
    # the size of the job is not known: a gap in the numbers of those who report is a rank all the same
    gaps = tuple(sorted(set(range(max(reported, default=0))) - reported))
    if gaps and len(gaps) * 4 <= len(gaps) + len(reported):
        return (
            gaps,
            f"{'says' if len(gaps) == 1 else 'say'} nothing: had not launched it, as far as logs are here",
            0.65,
        )
    if len({number_of(event, "group_rank") for event in events if event.rank is None} - {None}) > 1:
        return (), "those that report give only their ranks within groups, so nothing tells who did not come", 0.5
    if len(reported) < 2:
        return (), "of the other ranks there is no word, so nothing tells who did not come", 0.5
    return (), "all that report had launched it, and it did not complete", 0.6


def _mismatch(job: Job, timeouts: Sequence[LogEvent]) -> Finding | None:
    """Compare what ranks had outstanding at one sequence number of one group."""
    by_number: dict[tuple[str, int], dict[int, LogEvent]] = defaultdict(dict)
    for event in timeouts:
        sequence = number_of(event, "seq")
        if event.rank is not None and sequence is not None:
            by_number[text_of(event, "group_name") or text_of(event, "group"), sequence].setdefault(event.rank, event)
    for (_, sequence), own in sorted(by_number.items()):
        ops = vote({rank: text_of(event, "op") for rank, event in own.items()})
        if ops is None:
            continue
        if ops.odd:
            return _odd(job, "collective_mismatch", own, sequence, ops.odd_ranks, ops.odd, ops.usual)
        sizes = vote({rank: number_of(event, "numel_in") or 0 for rank, event in own.items()})
        if sizes is not None and sizes.odd and ops.usual in SIZED:
            odd = {rank: f"{size} elements" for rank, size in sizes.odd.items()}
            usual = f"{ops.usual} of {sizes.usual} elements"
            return _odd(job, "collective_size_mismatch", own, sequence, sizes.odd_ranks, odd, usual)
    return None


def _odd(
    job: Job,
    kind: str,
    own: Mapping[int, LogEvent],
    sequence: int,
    ranks: tuple[int, ...],
    odd: Mapping[int, str],
    usual: str,
) -> Finding:
    told = listed([f"rank {rank} in {value}" for rank, value in sorted(odd.items())])
    return Finding(
        kind, "critical", 0.85,
        f"at collective #{sequence} ranks differ: {told}, the others in {usual}",
        ranks=ranks, nodes=homes(job, ranks),
        evidence=lines([own[rank] for rank in (*sorted(odd), *sorted(set(own) - set(odd)))]),
        advice="Look for a collective behind `if rank == …`, or batches whose shape differs from rank to rank.",
    )  # fmt: skip


def left_early(job: Job) -> Iterator[Finding]:
    """rank_left_early by logs: a rank says that it finished, or destroyed its communicator, and others then time out.

    Needs the end in that rank's log, and time-outs of other ranks; where both have times, in this order.
    """
    waits = (*said(job, "torch.watchdog_timeout"), *said(job, "gloo.timeout"))
    waiting = set(ranks_in(waits))
    timed_out = min((event.at for event in waits if event.at is not None), default=None)
    sizes = [size for event in said(job, "nccl.init") if (size := number_of(event, "size"))]
    largest = max(sizes, default=0)
    ends = [
        event
        for event in (*said(job, "job.finished"), *said(job, "nccl.end"))
        if event.rank is not None and event.rank not in waiting and _is_end(event, largest)
        and (event.at is None or timed_out is None or event.at < timed_out)
    ]  # fmt: skip
    ranks = ranks_in(ends)
    if not waiting or not ranks or len(ranks) > len(waiting):
        return
    yield Finding(
        "rank_left_early", "critical", 0.75,
        f"{ranks_text(ranks)} finished while {count(len(waiting), 'other')} still waited in a collective",
        ranks=ranks, nodes=homes(job, ranks), evidence=lines([*ends[:2], *waits[:2]]),
        advice="Its data ran out before the others': give every rank the same number of batches, or use "
        "torch.distributed.algorithms.join.",
    )  # fmt: skip


def _is_end(event: LogEvent, largest: int) -> bool:
    """The end of training, or of the communicator of all ranks: others come and go in a run."""
    if event.kind == "job.finished":
        return True
    return text_of(event, "phase") == "destroy" and largest > 1 and number_of(event, "size") == largest
