"""Which rank has not launched a collective, or launched another one, by torch's words in logs.

They are its watchdog's time-outs, desync reports, monitored barriers and fingerprints (TORCH_DISTRIBUTED_DEBUG=DETAIL).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.collectives.mismatch import mismatch, vote
from hangtop.diagnosis.collectives.progress import leading
from hangtop.diagnosis.collectives.watchdog import TimedOutGroup, timed_out
from hangtop.diagnosis.evidence.event_fields import number_of, text_of, words_of
from hangtop.diagnosis.evidence.events import hosts_in, lines, ranks_in, said
from hangtop.diagnosis.failures.first import finished_ranks
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, duration, listed, of_several, ranks_text
from hangtop.diagnosis.roster import homes

_OPERATION = re.compile(r"torch/distributed/distributed_c10d\.py:\d+ in (?!wrapper\b|_)(\w+)")
CODE = (
    "Look for a collective behind `if rank == …` (evaluation, logging, a checkpoint of rank 0 alone), for ranks with "
    "different numbers of batches, or for shapes that differ."
)
STACKS = "These ranks have not launched what the others wait in: look at their last log lines and their stacks."
WHY = "The time-out is a consequence: find what kept this rank on its CPU (its last log lines, its stack)."
NOBODY = (
    "Where every rank had launched it, suspect the network, a GPU, or sizes that differ; else the one that had not is "
    "to blame: look at the logs of all ranks."
)
RAN_OUT = (
    "Its data ran out before the others': give every rank the same number of batches, or use "
    "torch.distributed.algorithms.join."
)


# --- torch's watchdog --------------------------------------------------------------------------------------------


def watchdog_timeout(job: Job) -> Iterator[Finding]:
    """watchdog_timeout: collectives that ran into their time-out; a consequence that names who had launched least.

    Told is the first group whose absent ranks do not wait in another one. Where operations or sizes at one sequence
    number differ, it is a mismatch.
    """
    groups = timed_out(job)
    if not groups:
        return
    yield from islice((finding for group in groups for finding in _mismatch(job, group)), 1)
    ends = leading([group.progress for group in groups])
    group = next((group for group in groups if group.progress in ends), None)
    group = group or next((group for group in groups if group.progress.untold), groups[0])
    behind, how, weight = _behind(group)
    first = (group.timeouts or group.events)[0]
    op, sequence, ran = text_of(first, "op"), number_of(first, "seq"), number_of(first, "ran_ms")
    what = f"{op}{f' #{sequence}' if sequence is not None else ''}" if op else "a collective"
    where = f" of group {group.progress.label}" if group.name and len(groups) > 1 else ""
    reporting = ranks_in(group.events)
    on = ranks_text(reporting) if len(reporting) == 1 else count(len(reporting), "rank")
    yield Finding(
        "watchdog_timeout", "critical", weight,
        f"{what}{where} timed out{f' on {on}' if reporting else ''}"
        f"{f' after {duration(ran / 1000)}' if ran else ''}: {f'{ranks_text(behind)} ' if behind else ''}{how}",
        ranks=behind, nodes=homes(job, behind) if behind else hosts_in(job, group.events),
        evidence=lines(group.events), advice=WHY if behind else NOBODY,
    )  # fmt: skip


def _behind(group: TimedOutGroup) -> tuple[tuple[int, ...], str, float]:
    """Ranks that had launched least, how that is known, and how surely.

    A member that reports nothing at all in a log that was read, while its peers do, had not launched it either.
    """
    progress, reported = group.progress, set(ranks_in(group.events))
    behind = () if progress.trickles else progress.behind
    if behind and len(behind) * 2 <= len(progress.last):
        numbers = [progress.last[rank].seq for rank in behind]
        return behind, f"had launched {min(numbers)} of {max(one.seq for one in progress.last.values())}", 0.8
    if missing := progress.untold:
        return missing, f"{of_several('was', len(missing))} waiting for nothing: had not launched it", 0.8
    if len(reported) < 2:
        return (), "of the other ranks there is no word, so nothing tells who did not come", 0.5
    if group.members is not None and group.members <= reported:
        return (), "all that report had launched it, and it did not complete", 0.6
    unread = (group.members or frozenset[int]()) - reported
    others = f"of {ranks_text(unread)} there is no word" if unread else "its other ranks are not known"
    return (), f"all that report had launched it, and {others}", 0.5


def _mismatch(job: Job, group: TimedOutGroup) -> Iterator[Finding]:
    """Ranks of one group that launched something else at one number."""
    waiting = group.progress.waiting
    how = mismatch(waiting) if len({one.seq for one in waiting.values()}) == 1 else None
    if how is not None:
        number, odd = next(iter(waiting.values())).seq, how.counted.odd_ranks
        by_value: dict[str, list[int]] = defaultdict(list)
        for rank, one in sorted(waiting.items()):
            by_value[f"{one.name} #{number}{f' of {one.size}' if how.what == 'size' else ''}"].append(rank)
        told = listed([f"{ranks_text(ranks)} in {value}" for value, ranks in sorted(by_value.items())])
        yield Finding(
            "collective_size_mismatch" if how.what == "size" else "collective_mismatch", "critical", 0.85,
            f"ranks of one group wait at different collectives: {told}", ranks=odd, nodes=homes(job, odd),
            evidence=lines(sorted(group.timeouts, key=lambda event: event.rank not in odd)), advice=CODE,
        )  # fmt: skip


def left_early(job: Job) -> Iterator[Finding]:
    """rank_left_early by logs: a rank says that it finished, or destroyed its communicator, and others then time out.

    Of communicators only the largest counts: others come and go in a run.
    """
    waits = (*said(job, "torch.watchdog_timeout"), *said(job, "gloo.timeout"))
    waiting = set(ranks_in(waits))
    since = min((event.at for event in waits if event.at is not None), default=None)
    largest = max((number_of(event, "size") or 0 for event in said(job, "nccl.init")), default=0)
    destroyed = [
        event for event in said(job, "nccl.end")
        if text_of(event, "phase") == "destroy" and 1 < largest == number_of(event, "size")
    ]  # fmt: skip
    ends = [
        event for event in (*finished_ranks(job), *destroyed)
        if event.rank is not None and event.rank not in waiting
        and (event.at is None or since is None or event.at < since)
    ]  # fmt: skip
    ranks = ranks_in(ends)
    if waiting and 0 < len(ranks) <= len(waiting):
        yield Finding(
            "rank_left_early", "critical", 0.75,
            f"{ranks_text(ranks)} finished while {count(len(waiting), 'other')} still waited in a collective",
            ranks=ranks, nodes=homes(job, ranks), evidence=lines([*ends[:2], *waits[:2]]), advice=RAN_OUT,
        )  # fmt: skip


def differing_calls(job: Job) -> Iterator[Finding]:
    """collective_mismatch by the tracebacks of a time-out: ranks were in different operations of torch.distributed."""
    told = [event for event in said(job, "python.exception", "collective_timeout", "connection") if _call(event)]
    counted = vote({event.rank: _call(event) for event in told if event.rank is not None})
    timed_out = any(text_of(event, "signature") == "collective_timeout" for event in told)
    if timed_out and counted is not None:
        odd = listed([f"rank {rank} in {call}" for rank, call in sorted(counted.odd.items())])
        proof = sorted(told, key=lambda event: event.rank not in counted.odd)
        yield Finding(
            "collective_mismatch", "critical", 0.6 if counted.tied else 0.85,
            f"ranks timed out in different operations: {odd}, {ranks_text(counted.usual_ranks)} in {counted.usual}",
            ranks=counted.odd_ranks, nodes=hosts_in(job, proof), evidence=lines(proof), advice=CODE,
        )  # fmt: skip


def _call(event: LogEvent) -> str:
    """The operation of torch.distributed that a traceback is in; empty where it is in none."""
    calls = [found.group(1) for frame in words_of(event, "frames") if (found := _OPERATION.search(frame))]
    return calls[-1] if calls else ""


# --- torch's own checks ------------------------------------------------------------------------------------------


def fingerprints(job: Job) -> Iterator[Finding]:
    """collective_mismatch and collective_size_mismatch by TORCH_DISTRIBUTED_DEBUG=DETAIL.

    Each line names a pair of ranks only, so what every rank ran is gathered from all of them and put to the vote.
    """
    events, ran = said(job, "torch.fingerprint"), dict[int, str]()
    differs = {word for event in events for word in words_of(event, "differs")}
    size_only = bool(differs) and differs <= {"shape", "dtype"}
    for event in events:
        for side in ("a", "b"):
            rank, number = number_of(event, f"rank_{side}"), number_of(event, f"seq_{side}")
            what = f"#{number}" if number is not None else ""
            if size_only:
                what = f"of {event.data.get(f'shape_{side}')} {text_of(event, f'dtype_{side}')}"
            if rank is not None:
                ran.setdefault(rank, f"{text_of(event, f'op_{side}')} {what}".strip())
    counted = vote(ran)
    if counted is not None:
        told = listed([f"rank {rank} ran {what}" for rank, what in sorted(counted.odd.items())])
        yield Finding(
            "collective_size_mismatch" if size_only else "collective_mismatch", "critical",
            0.75 if counted.tied else 0.93, f"{told}; {ranks_text(counted.usual_ranks)} ran {counted.usual}",
            ranks=counted.odd_ranks, nodes=homes(job, counted.odd_ranks), evidence=lines(events), advice=CODE,
        )  # fmt: skip
