"""Reports of torch's watchdog that a collective timed out: which rank had not launched it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import number_of, text_of
from hangtop.diagnosis.evidence.events import hosts_in, lines, ranks_in, said
from hangtop.diagnosis.failures.first import finished_ranks
from hangtop.diagnosis.failures.unheard import was_read
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.groups.timeouts import Timed, enqueued, heard, timed_out, unheard
from hangtop.diagnosis.groups.vote import Vote, vote
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, duration, listed, of_several, ranks_text
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.rules.victims import RAN_OUT

SIZED = frozenset({"ALLREDUCE", "BROADCAST", "REDUCE", "_REDUCE_SCATTER_BASE", "REDUCE_SCATTER", "_ALLGATHER_BASE"})
"""Operations that need the same number of elements on every rank."""
FAR = 16
"""Difference of sequence numbers that those of one group seldom have when its ranks fall apart."""
SAME_TIME_S = 5.0
"""Ours: seconds by which ranks that launched a collective side by side tell of its time-out apart."""
UNNAMED = " These lines name no process group (torch before 2.3): ranks of several groups may stand side by side."
WHY = "The time-out is a consequence: find what kept this rank on its CPU (its last log lines, its stack)."
NOBODY = (
    "Where every rank had launched it, suspect the network, a GPU, or sizes that differ; else the one that had not is "
    "to blame: look at the logs of all ranks."
)
CODE = (
    "Look for a collective behind `if rank == …` (evaluation, logging, a checkpoint of rank 0 alone), or ranks with "
    "different batches."
)


def watchdog_timeout(job: Job) -> Iterator[Finding]:
    """watchdog_timeout: collectives that ran into their time-out; a consequence that carries who had launched least.

    Needs the watchdog's lines, one group at a time. Told is the first group whose absent ranks do not wait in another
    one. Where operations or sizes at one sequence number differ, it is a mismatch.
    """
    groups = timed_out(job)
    if not groups:
        return
    mismatched = next(filter(None, (_mismatch(job, group) or _apart(job, group) for group in groups)), None)
    if mismatched:
        yield mismatched
    waiting = {rank for group in groups for rank in ranks_in(group.timeouts)}
    told = [(group, *_behind(job, group)) for group in groups]
    ends = [one for one in told if one[1] and not set(one[1]) <= waiting - set(ranks_in(one[0].timeouts))]
    group, behind, how, weight = (ends or told)[0]
    first = (group.timeouts or group.events)[0]
    op, sequence, ran = text_of(first, "op"), number_of(first, "seq"), number_of(first, "ran_ms")
    what = f"{op}{f' #{sequence}' if sequence is not None else ''}" if op else "a collective"
    where = " of an unnamed group" if not group.name else f" of group {group.label}" if len(groups) > 1 else ""
    calls = [event for event in said(job, "torch.dump_signal") if number_of(event, "from_rank") is not None]
    reporting = ranks_in(group.events)
    if calls and not ranks_in(group.timeouts):
        reporting = tuple(sorted({number_of(event, "from_rank") or 0 for event in calls}))
    on = ranks_text(reporting) if len(reporting) == 1 else count(len(reporting), "rank")
    yield Finding(
        "watchdog_timeout", "critical", weight,
        f"{what}{where} timed out{f' on {on}' if reporting else ''}"
        f"{f' after {duration(ran / 1000)}' if ran else ''}: {f'{ranks_text(behind)} ' if behind else ''}{how}",
        ranks=behind, nodes=homes(job, behind) if behind else hosts_in(job, group.events),
        evidence=lines(group.events) + (lines(calls) if reporting != ranks_in(group.events) else ()),
        advice=(WHY if behind else NOBODY) + ("" if group.name else UNNAMED),
    )  # fmt: skip


def _behind(job: Job, group: Timed) -> tuple[tuple[int, ...], str, float]:
    """Ranks that had launched least, how that is known, and how surely.

    The rank that had enqueued least had not launched the collective. A member that reports nothing at all in a log that
    was read, while its peers do, had nothing outstanding, so it had not launched it either.
    """
    launched = enqueued(group)
    counts = set(launched.values())
    chain = len(counts) > 2 and any(text_of(event, "op") == "BROADCAST" for event in group.timeouts)
    if len(counts) > 1 and not group.several and not chain:
        ranks = tuple(sorted(rank for rank, last in launched.items() if last == min(counts)))
        if len(ranks) * 2 <= len(launched):
            return ranks, f"had launched {min(counts)} of {max(counts)}", 0.8
    missing = unheard(job, group)
    if missing:
        return missing, f"{of_several('was', len(missing))} waiting for nothing: had not launched it", 0.8
    reported = set(ranks_in(group.events))
    if group.whole or not group.name:
        # the size of the job is not known: a gap in the numbers of those who report is a rank all the same
        gaps = tuple(sorted(heard(job, group, set(range(max(reported, default=0))) - reported)))
        if gaps and len(gaps) * 4 <= len(gaps) + len(reported):
            return gaps, f"{of_several('says', len(gaps))} nothing: had not launched it, as far as logs are here", 0.65
    labelled = {number_of(event, "group_rank") for event in group.events if event.rank is not None}
    bare = {number_of(event, "group_rank") for event in group.events if event.rank is None}
    if len(bare - labelled - {None}) > 1:  # what() of an exception repeats what a rank said
        return (), "those that report give only their ranks within groups, so nothing tells who did not come", 0.5
    if len(reported) < 2:
        return (), "of the other ranks there is no word, so nothing tells who did not come", 0.5
    members = group.ranks(job)
    if members is not None and members <= reported:
        return (), "all that report had launched it, and it did not complete", 0.6
    unread = tuple(sorted({*(members or ()), *range(max(reported) if group.whole else 0)} - reported))
    living = {rank.rank: rank for rank in job.ranks if rank.gone_at is None} if job.live else {}
    alive = [rank for rank in unread if rank in living]
    until = max((event.at for event in group.events if event.at is not None), default=job.now) + SAME_TIME_S
    few = members is not None and 0 < 2 * len(unread) <= len(reported)
    if few and len(alive) == len(unread) and all(was_read(job, living[rank], until) for rank in unread):
        say = "is alive and says nothing of it in its log" if len(unread) == 1 else "are alive and say nothing of it"
        return unread, f"{say}: most likely had not launched it", 0.6
    of_them = f"logs of {ranks_text(unread)} were not read" if unread else "its other ranks are not known"
    if alive:
        of_them = f"{ranks_text(alive)}, still alive, {of_several('says', len(alive))} nothing of it"
    return (), f"all that report had launched it, and {of_them}", 0.5


def _whole(group: Timed) -> Iterator[tuple[int, int, LogEvent]]:
    """Rank, sequence number and line of each time-out; what a torn line does not say compares with nothing."""
    for event in group.timeouts:
        sequence = number_of(event, "seq")
        if event.data.get("torn") is not True and event.rank is not None and sequence is not None:
            yield event.rank, sequence, event


def _mismatch(job: Job, group: Timed) -> Finding | None:
    """Ranks that had another operation, or another size, outstanding at one sequence number of one group."""
    by_number: dict[int, dict[int, LogEvent]] = defaultdict(dict)
    for rank, sequence, event in _whole(group):
        by_number[sequence].setdefault(rank, event)
    for sequence, own in sorted(by_number.items()) if not group.several else ():
        ops = vote({rank: op for rank, event in own.items() if (op := text_of(event, "op"))})
        if ops is not None and ops.odd:
            return _odd(job, "collective_mismatch", own, sequence, ops, ops.usual)
        sizes = {rank: size for rank, event in own.items() if (size := number_of(event, "numel_in")) is not None}
        counted = vote({rank: f"{size} elements" for rank, size in sizes.items()})
        if ops is not None and counted is not None and counted.odd and ops.usual in SIZED:
            usual = f"{ops.usual} of {counted.usual}"
            return _odd(job, "collective_size_mismatch", own, sequence, counted, usual)
    return None


def _odd(
    job: Job, kind: str, own: Mapping[int, LogEvent], sequence: int, counted: Vote[str], usual: str
) -> Finding:  # fmt: skip
    told = listed([f"rank {rank} in {value}" for rank, value in sorted(counted.odd.items())])
    ranks = counted.odd_ranks
    return Finding(
        kind, "critical", 0.85, f"at collective #{sequence} ranks differ: {told}, the others in {usual}",
        ranks=ranks, nodes=homes(job, ranks),
        evidence=lines([own[rank] for rank in sorted(own, key=lambda rank: (rank not in ranks, rank))]), advice=CODE,
    )  # fmt: skip


def _apart(job: Job, group: Timed) -> Finding | None:
    """Ranks of one group that wait at different numbers: those ahead had left the others' collective behind.

    But for the group of all ranks, one name may stand for several groups: those whose ranks within the group are the
    same, or, where lines have no GUID, whose numbers lie far apart.
    """
    own: dict[int, LogEvent] = {}
    numbers: dict[int, int] = {}
    for rank, sequence, event in _whole(group):
        if sequence < numbers.get(rank, sequence + 1):
            own[rank], numbers[rank] = event, sequence
    at = {rank: (text_of(event, "op"), numbers[rank]) for rank, event in own.items()}
    counted = vote(at)
    if counted is None or not counted.odd or len(set(numbers.values())) < 2 or group.several:
        return None
    within = [place for event in own.values() if (place := number_of(event, "group_rank")) is not None]
    spread = max(numbers.values()) - min(numbers.values())
    far = spread > FAR and not any(text_of(event, "guid") for event in own.values())
    several = len(set(within)) < len(within) or far
    if (several and not group.whole) or _chain_of_broadcasts(at) or _raised_first(job, own):
        return None
    places: dict[tuple[str, int], list[int]] = defaultdict(list)
    for rank, called in sorted(at.items()):
        places[called].append(rank)
    told = listed([f"{ranks_text(ranks)} in {op} #{number}" for (op, number), ranks in sorted(places.items())])
    ranks = tuple(sorted(at)) if counted.tied else counted.odd_ranks
    return Finding(
        "collective_mismatch", "critical", 0.7 if group.whole else 0.55,
        f"ranks of one {'' if group.name else 'unnamed '}group wait at different collectives: {told}",
        ranks=ranks, nodes=homes(job, ranks), evidence=lines([own[rank] for rank in sorted(own)]),
        advice=CODE + ("" if group.name else UNNAMED),
    )  # fmt: skip


def _chain_of_broadcasts(at: Mapping[int, tuple[str, int]]) -> bool:
    """Ranks wait in broadcasts, all of them, or all but one that is ahead, the root: data trickles down from it."""
    others = [rank for rank, (op, _) in at.items() if op != "BROADCAST"]
    ahead = max(number for _, number in at.values())
    return not others or (len(others) == 1 < len(at) and at[others[0]][1] == ahead)


def _raised_first(job: Job, own: Mapping[int, LogEvent]) -> bool:
    """Whether one of the ranks had told an exception of its own before it timed out: it is elsewhere for that."""
    return any(
        event.rank in own and event.source == own[event.rank].source and event.line < own[event.rank].line
        for event in said(job, "python.exception")
        if event.rank is not None and not any(event.data.get(word) for word in ("consequence", "survived", "logged"))
    )


def left_early(job: Job) -> Iterator[Finding]:
    """rank_left_early by logs: a rank says that it finished, or destroyed its communicator, and others then time out.

    Needs the end in that rank's log, and time-outs of other ranks; where both have times, in this order. Of
    communicators only the largest counts: others come and go in a run.
    """
    waits = (*said(job, "torch.watchdog_timeout"), *said(job, "gloo.timeout"))
    waiting = set(ranks_in(waits))
    timed_out = min((event.at for event in waits if event.at is not None), default=None)
    largest = max((number_of(event, "size") or 0 for event in said(job, "nccl.init")), default=0)
    destroyed = [
        event
        for event in said(job, "nccl.end")
        if text_of(event, "phase") == "destroy" and 1 < largest == number_of(event, "size")
    ]
    ends = [
        event
        for event in (*finished_ranks(job), *destroyed)
        if event.rank is not None
        and event.rank not in waiting
        and (event.at is None or timed_out is None or event.at < timed_out)
    ]
    ranks = ranks_in(ends)
    if waiting and 0 < len(ranks) <= len(waiting):
        yield Finding(
            "rank_left_early", "critical", 0.75,
            f"{ranks_text(ranks)} finished while {count(len(waiting), 'other')} still waited in a collective",
            ranks=ranks, nodes=homes(job, ranks), evidence=lines([*ends[:2], *waits[:2]]), advice=RAN_OUT,
        )  # fmt: skip
