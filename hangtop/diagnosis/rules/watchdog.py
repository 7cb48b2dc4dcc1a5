"""NCCL's watchdog, and what its time-outs say about who did not come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import number_of, text_of
from hangtop.diagnosis.evidence.events import hosts_in, lines, ranks_in, said
from hangtop.diagnosis.failures.first import finished_ranks
from hangtop.diagnosis.failures.unheard import was_read
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.groups.timeouts import Timed, enqueued, heard, timed_out, unheard
from hangtop.diagnosis.groups.vote import vote
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, duration, listed, ranks_text
from hangtop.diagnosis.roster import homes

SIZED = frozenset({"ALLREDUCE", "BROADCAST", "REDUCE", "_REDUCE_SCATTER_BASE", "REDUCE_SCATTER", "_ALLGATHER_BASE"})
"""Operations that need the same number of elements on every rank."""
FAR = 16
"""Difference of sequence numbers that those of one group seldom have when its ranks fall apart."""
SAME_TIME_S = 5.0
"""Ours: seconds by which ranks that launched a collective side by side tell of its time-out apart."""
UNNAMED = "These lines name no process group (torch before 2.3): ranks of several groups may stand side by side."


def watchdog_timeout(job: Job) -> Iterator[Finding]:
    """watchdog_timeout: collectives that ran into their time-out; a consequence that carries who had launched least.

    Needs the watchdog's lines. One group at a time: the rank that had enqueued least did not come; a member that
    reports nothing at all in a log that was read, while its peers do, had nothing outstanding, so it had not come
    either. Told is the first group whose absent ranks do not wait in another one. Where operations or sizes at one
    sequence number differ, it is a mismatch.
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
    group, behind, how, sure = (ends or told)[0]
    events, timeouts, name = group.events, group.timeouts, group.name
    first = timeouts[0] if timeouts else events[0]
    op, sequence, ran = text_of(first, "op"), number_of(first, "seq"), number_of(first, "ran_ms")
    what = f"{op}{f' #{sequence}' if sequence is not None else ''}" if op else "a collective"
    waited = f" after {duration(ran / 1000)}" if ran else ""
    where = " of an unnamed group" if not name else f" of group {group.label}" if len(groups) > 1 else ""
    calls = [event for event in said(job, "torch.dump_signal") if number_of(event, "from_rank") is not None]
    reporting = ranks_in(events)
    if calls and not ranks_in(timeouts):
        reporting = tuple(sorted({number_of(event, "from_rank") or 0 for event in calls}))
    on = f" on {ranks_text(reporting) if len(reporting) == 1 else count(len(reporting), 'rank')}" if reporting else ""
    yield Finding(
        "watchdog_timeout", "critical", sure,
        f"{what}{where} timed out{on}{waited}: " + (f"{ranks_text(behind)} {how}" if behind else how),
        ranks=behind, nodes=hosts_in(job, events) if not behind else homes(job, behind),
        evidence=lines(events) + (lines(calls) if reporting != ranks_in(events) else ()),
        advice=(
            "The time-out is a consequence: find what kept this rank on its CPU (its last log lines, its stack)."
            if behind else "Where every rank had launched it, suspect the network, a GPU, or sizes that differ; else "
            "the one that had not is to blame: look at the logs of all ranks."
        ) + ("" if name else f" {UNNAMED}"),
    )  # fmt: skip


def _apart(job: Job, group: Timed) -> Finding | None:
    """Ranks of one group that wait at different numbers: those ahead had left the others' collective behind.

    But for the group of all ranks, one name may stand for several groups: those whose ranks within the group are the
    same, or, where lines have no GUID, whose numbers lie far apart. In a chain of broadcasts the root runs ahead, and
    data trickles down from it: different places are no mismatch.
    """
    own: dict[int, LogEvent] = {}
    for event in _whole(group):
        sequence = number_of(event, "seq")
        if event.rank is not None and sequence is not None:
            known = own.get(event.rank)
            if known is None or sequence < (number_of(known, "seq") or 0):
                own[event.rank] = event
    at = {rank: (text_of(event, "op"), number_of(event, "seq") or 0) for rank, event in own.items()}
    counted = vote(at)
    if counted is None or not counted.odd or _trickles(at):
        return None
    if _raised_first(job, own):
        return None
    numbers = {number for _, number in at.values()}
    within = [place for event in own.values() if (place := number_of(event, "group_rank")) is not None]
    far = max(numbers) - min(numbers) > FAR and not any(text_of(event, "guid") for event in own.values())
    several = len(set(within)) < len(within) or far
    if len(numbers) < 2 or group.several or (several and not group.whole):
        return None
    told = listed([f"{ranks_text(ranks)} in {op} #{number}" for (op, number), ranks in sorted(_gathered(at).items())])
    ranks = tuple(sorted(counted.odd)) if not counted.tied else tuple(sorted(at))
    return Finding(
        "collective_mismatch", "critical", 0.7 if group.whole else 0.55,
        f"ranks of one {'' if group.name else 'unnamed '}group wait at different collectives: {told}",
        ranks=ranks, nodes=homes(job, ranks), evidence=lines([own[rank] for rank in sorted(own)]),
        advice="Look for a collective behind `if rank == …` (evaluation, logging, a checkpoint of rank 0 alone), or "
        "ranks with a different number of batches." + ("" if group.name else f" {UNNAMED}"),
    )  # fmt: skip


def _raised_first(job: Job, own: Mapping[int, LogEvent]) -> bool:
    """Whether one of the ranks had told an exception of its own before it timed out: it is elsewhere for that."""
    return any(
        event.rank in own and event.source == own[event.rank].source and event.line < own[event.rank].line
        for event in said(job, "python.exception")
        if event.rank is not None and not any(event.data.get(word) for word in ("consequence", "survived", "logged"))
    )


def _trickles(at: Mapping[int, tuple[str, int]]) -> bool:
    """Whether ranks wait in a chain of broadcasts, all of them, or all but one that is ahead: the root."""
    top = max(number for _, number in at.values())
    others = [rank for rank, (op, _) in at.items() if op != "BROADCAST"]
    return not others or (len(others) == 1 < len(at) and at[others[0]][1] == top)


def _gathered(at: Mapping[int, tuple[str, int]]) -> dict[tuple[str, int], list[int]]:
    gathered: dict[tuple[str, int], list[int]] = defaultdict(list)
    for rank, place in sorted(at.items()):
        gathered[place].append(rank)
    return gathered


def _behind(job: Job, group: Timed) -> tuple[tuple[int, ...], str, float]:
    """Ranks that had launched least, how that is known, and how surely."""
    launched = enqueued(group)
    in_broadcast = any(text_of(event, "op") == "BROADCAST" for event in group.timeouts)
    if len(set(launched.values())) > 1 and not group.several and not (in_broadcast and len(set(launched.values())) > 2):
        least = min(launched.values())
        ranks = tuple(sorted(rank for rank, last in launched.items() if last == least))
        if len(ranks) * 2 <= len(launched):
            return ranks, f"had launched {least} of {max(launched.values())}", 0.8
    missing = unheard(job, group)
    if missing:
        return missing, f"{'was' if len(missing) == 1 else 'were'} waiting for nothing: had not launched it", 0.8
    reported = set(ranks_in(group.events))
    if group.whole or not group.name:
        # the size of the job is not known: a gap in the numbers of those who report is a rank all the same
        gaps = tuple(sorted(heard(job, group, set(range(max(reported, default=0))) - reported)))
        if gaps and len(gaps) * 4 <= len(gaps) + len(reported):
            how = "nothing: had not launched it, as far as logs are here"
            return gaps, f"{'says' if len(gaps) == 1 else 'say'} {how}", 0.65
    labelled = {number_of(event, "group_rank") for event in group.events if event.rank is not None}
    bare = {number_of(event, "group_rank") for event in group.events if event.rank is None}
    if len(bare - labelled - {None}) > 1:  # what() of an exception repeats what a rank said
        return (), "those that report give only their ranks within groups, so nothing tells who did not come", 0.5
    if len(reported) < 2:
        return (), "of the other ranks there is no word, so nothing tells who did not come", 0.5
    members = group.ranks(job)
    if members is None or not members <= reported:
        unread = sorted({*(members or ()), *range(max(reported) if group.whole else 0)} - reported)
        if members is not None and _are_silent(job, group, unread):
            say, where = ("is alive and says", "its log") if len(unread) == 1 else ("are alive and say", "their logs")
            return tuple(unread), f"{say} nothing of it in {where}: most likely had not launched it", 0.6
        of_them = _without(job, unread) if unread else "its other ranks are not known"
        return (), f"all that report had launched it, and {of_them}", 0.5
    return (), "all that report had launched it, and it did not complete", 0.6


def _are_silent(job: Job, group: Timed, ranks: Sequence[int]) -> bool:
    """Whether few ranks are all that is lacking, all alive, and their logs were read past the time of the others' word.

    Each of those who launched it tells so by itself, each some seconds after the other.
    """
    living = {rank.rank: rank for rank in job.ranks if rank.gone_at is None} if job.live else {}
    latest = max((event.at for event in group.events if event.at is not None), default=job.now)
    few = 0 < 2 * len(ranks) <= len(set(ranks_in(group.events)))
    return few and all(rank in living and was_read(job, living[rank], latest + SAME_TIME_S) for rank in ranks)


def _without(job: Job, ranks: Sequence[int]) -> str:
    """What is known of ranks that report nothing: one that is alive may have nothing to report."""
    living = {rank.rank for rank in job.ranks if rank.gone_at is None} if job.live else set()
    alive = sorted(living.intersection(ranks))
    if not alive:
        return f"logs of {ranks_text(ranks)} were not read"
    others = f", nor was the log of {ranks_text(set(ranks) - living)} read" if set(ranks) - living else ""
    return f"{ranks_text(alive)}, still alive, {'says' if len(alive) == 1 else 'say'} nothing of it{others}"


def _whole(group: Timed) -> Iterator[LogEvent]:
    """Time-outs whose lines are whole: what a torn one does not say, compares with nothing."""
    return (event for event in group.timeouts if event.data.get("torn") is not True)


def _mismatch(job: Job, group: Timed) -> Finding | None:
    """Compare what ranks had outstanding at one sequence number of one group."""
    by_number: dict[int, dict[int, LogEvent]] = defaultdict(dict)
    for event in _whole(group):
        sequence = number_of(event, "seq")
        if event.rank is not None and sequence is not None:
            by_number[sequence].setdefault(event.rank, event)
    for sequence, own in sorted(by_number.items()) if not group.several else ():
        ops = vote({rank: op for rank, event in own.items() if (op := text_of(event, "op"))})
        if ops is None:
            continue
        if ops.odd:
            return _odd(job, "collective_mismatch", own, sequence, ops.odd_ranks, ops.odd, ops.usual)
        sizes = vote({rank: size for rank, event in own.items() if (size := number_of(event, "numel_in")) is not None})
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
        for event in (*finished_ranks(job), *said(job, "nccl.end"))
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
    if event.kind != "nccl.end":
        return True
    return text_of(event, "phase") == "destroy" and largest > 1 and number_of(event, "size") == largest
