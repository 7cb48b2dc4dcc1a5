"""Reports of torch's watchdog that a collective timed out: which rank had not launched it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.collectives.vote import Vote, vote
from hangtop.diagnosis.collectives.watchdog import TimedOutGroup, heard, timed_out, unheard
from hangtop.diagnosis.evidence.event_fields import number_of, text_of
from hangtop.diagnosis.evidence.events import hosts_in, lines, ranks_in, said
from hangtop.diagnosis.failures.first import finished_ranks
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, duration, listed, of_several, ranks_text
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.rules.victims import RAN_OUT

SIZED = frozenset({"ALLREDUCE", "BROADCAST", "REDUCE", "_REDUCE_SCATTER_BASE", "REDUCE_SCATTER", "_ALLGATHER_BASE"})
"""Operations that need the same number of elements on every rank."""
FAR = 16
"""Difference of sequence numbers that those of one group seldom have when its ranks fall apart."""
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
    mismatched = next(filter(None, (_mismatch(job, group) for group in groups)), None)
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


def _behind(job: Job, group: TimedOutGroup) -> tuple[tuple[int, ...], str, float]:
    """Ranks that had launched least, how that is known, and how surely.

    The rank that had enqueued least had not launched the collective. A member that reports nothing at all in a log that
    was read, while its peers do, had nothing outstanding, so it had not launched it either.
    """
    launched = group.enqueued
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
    living = {rank.rank for rank in job.ranks if rank.gone_at is None} if job.live else set()
    alive = [rank for rank in unread if rank in living]
    of_them = f"logs of {ranks_text(unread)} were not read" if unread else "its other ranks are not known"
    if alive:
        of_them = f"{ranks_text(alive)}, still alive, {of_several('says', len(alive))} nothing of it"
    return (), f"all that report had launched it, and {of_them}", 0.5


def _mismatch(job: Job, group: TimedOutGroup) -> Finding | None:
    """Ranks of one group that wait at different collectives, or in one with different sizes.

    But for the group of all ranks, one name may stand for several groups: those whose ranks within the group are the
    same, or, where lines have no GUID, whose numbers lie far apart. What a torn line does not say compares with
    nothing.
    """
    own: dict[int, LogEvent] = {}
    for event in sorted(group.timeouts, key=lambda event: number_of(event, "seq") or 0):
        whole = event.data.get("torn") is not True and event.rank is not None and number_of(event, "seq") is not None
        if whole and text_of(event, "op"):
            own.setdefault(event.rank or 0, event)
    at = {rank: (text_of(event, "op"), number_of(event, "seq") or 0) for rank, event in own.items()}
    counted = vote(at)
    if counted is None or group.several:
        return None
    op, number = counted.usual
    if not counted.odd:
        sizes = {rank: size for rank, event in own.items() if (size := number_of(event, "numel_in")) is not None}
        sized = vote({rank: f"{op} #{number} of {size} elements" for rank, size in sizes.items()})
        if sized is None or not sized.odd or op not in SIZED:
            return None
        return _differ(job, group, "collective_size_mismatch", own, sized, 0.85)
    numbers = {number for _, number in at.values()}
    within = [place for event in own.values() if (place := number_of(event, "group_rank")) is not None]
    far = max(numbers) - min(numbers) > FAR and not any(text_of(event, "guid") for event in own.values())
    several = len(numbers) > 1 and (len(set(within)) < len(within) or far)
    if (several and not group.whole) or _chain_of_broadcasts(at) or _raised_first(job, own):
        return None
    weight = 0.85 if len(numbers) == 1 else 0.7 if group.whole else 0.55
    places = vote({rank: f"{op} #{number}" for rank, (op, number) in at.items()})
    return None if places is None else _differ(job, group, "collective_mismatch", own, places, weight)


def _differ(
    job: Job, group: TimedOutGroup, kind: str, own: Mapping[int, LogEvent], counted: Vote[str], weight: float
) -> Finding:
    by_place: dict[str, list[int]] = defaultdict(list)
    for rank, place in sorted({**counted.odd, **dict.fromkeys(counted.usual_ranks, counted.usual)}.items()):
        by_place[place].append(rank)
    told = listed([f"{ranks_text(ranks)} in {place}" for place, ranks in sorted(by_place.items())])
    ranks = counted.odd_ranks
    return Finding(
        kind, "critical", weight,
        f"ranks of one {'' if group.name else 'unnamed '}group wait at different collectives: {told}",
        ranks=ranks, nodes=homes(job, ranks),
        evidence=lines([own[rank] for rank in sorted(own, key=lambda rank: (rank not in ranks, rank))]),
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
