"""Which rank has not launched a collective, or launched another one, by logs and by NCCL RAS.

Logs tell by NCCL's COLL lines, and by torch's words: time-outs of its watchdog and of gloo, tracebacks, and the
fingerprints of TORCH_DISTRIBUTED_DEBUG=DETAIL.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.collectives import counts
from hangtop.diagnosis.collectives.progress import LaunchProgress, Operation, leading, mismatch, vote
from hangtop.diagnosis.collectives.watchdog import TimedOutGroup, timed_out
from hangtop.diagnosis.evidence.event_fields import number_of, text_of, words_of
from hangtop.diagnosis.evidence.events import LINES_SHOWN, event_line, finished, hosts_in, lines, ranks_in, said
from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, duration, listed, of_several, ranks_text, who, who_wait
from hangtop.diagnosis.roster import homes, known_ranks
from hangtop.diagnosis.waits.job_status import JobStatus

_OPERATION = re.compile(r"torch/distributed/distributed_c10d\.py:\d+ in (?!wrapper\b|_)(\w+)")
CODE = (
    "Look for a collective behind `if rank == …` (evaluation, logging, a checkpoint of rank 0 alone), for ranks with "
    "different numbers of batches, or for shapes that differ."
)
STACKS = "These ranks have not launched what the others wait in: look at their last log lines and their stacks."
Proof = tuple["int | None", Evidence]
"""A line of evidence, and the rank that it is about."""
WHY = (
    "The time-out is a consequence: find what kept this rank (its last log lines, its stack). Where every rank had "
    "launched the operation, suspect the network, a GPU, or sizes that differ. TORCH_DISTRIBUTED_DEBUG=DETAIL makes "
    "torch say more."
)


def fewer_launched(job_status: JobStatus) -> Iterator[Finding]:
    """collective_mismatch and collective_size_mismatch by NCCL RAS and by NCCL's COLL lines.

    Live, COLL lines count only while the job stands still; ranks that are done have not all written their last lines.
    """
    job = job_status.job
    by_ras = counts.progress_by_ras(job)
    stands = job_status.hung or (job.stood_still or 0.0) >= job_status.alarm_after
    by_log = counts.progress_by_log(job) if (stands if job.live else not finished(job)) else ()
    for one in (*leading(by_ras), *leading(by_log)):
        ranks, wanted = one.behind, max(one.waiting.values(), key=lambda operation: operation.seq)
        last = listed([f"rank {rank} launched #{one.last[rank].seq} last" for rank in ranks])
        yield Finding(
            "collective_mismatch", "critical", 0.7 if 2 * len(ranks) > len(one.last) else 0.85 if one.certain else 0.8,
            f"{ranks_text(ranks)} {of_several('has', len(ranks))} not launched {_text(wanted)}: {last}; "
            f"{who_wait(one.waiting, 'other')} in it",
            ranks=ranks, nodes=_nodes(job, ranks), advice=STACKS if one.certain else CODE,
            evidence=_odd_first(_counts(Observer.RAS if one in by_ras else Observer.LOG, one), ranks),
        )  # fmt: skip
    for one in by_log:
        yield from _differing(job, one.last, (0.8, 0.6), _counts(Observer.LOG, one))


def _counts(observer: Observer, progress: LaunchProgress) -> list[Proof]:
    where = f"communicator {progress.label}"
    return [
        (rank, Evidence(observer, one.source, one.since, f"{where}: rank {rank} launched {_text(one)} last"))
        for rank, one in progress.last.items()
    ]


def _lines(events: Iterable[LogEvent]) -> list[Proof]:
    return [(event.rank, event_line(event)) for event in events]


def _odd_first(proof: Iterable[Proof], odd: Sequence[int]) -> tuple[Evidence, ...]:
    """The first few lines, those of the odd ranks before the others'."""
    return tuple(line for _, line in sorted(proof, key=lambda pair: pair[0] not in odd))[:LINES_SHOWN]


def _nodes(job: Job, ranks: Sequence[int]) -> tuple[str, ...]:
    hosts = {line.host for line in job.progress if line.global_rank in ranks and line.host}
    return homes(job, ranks) or tuple(sorted(hosts))


def _text(one: Operation, *, sized: bool = False) -> str:
    size = f"{one.size} {one.dtype}".rstrip() if sized else ""
    return f"{one.name} #{one.seq}{f' of {size}' if size else ''}"


# --- torch's watchdog, and gloo ----------------------------------------------------------------------------------


def watchdog_timeout(job: Job) -> Iterator[Finding]:
    """watchdog_timeout: collectives that ran into their time-out; a consequence that names who had launched least.

    Told is the first group whose absent ranks do not wait in another one. Where operations or sizes at one sequence
    number differ, it is a mismatch.
    """
    groups = timed_out(job)
    if not groups:
        return
    for group in groups:
        if differing := list(_differing(job, group.progress.waiting, (0.85, 0.85), _lines(group.timeouts))):
            yield from differing
            break
    ends = leading([group.progress for group in groups])
    told = [group for group in groups if group.progress in ends] or [one for one in groups if one.progress.untold]
    group = (told or groups)[0]
    behind, how, weight = _behind(group)
    first = (group.timeouts or group.events)[0]
    op, sequence, ran = text_of(first, "op"), number_of(first, "seq"), number_of(first, "ran_ms")
    what = f"{op}{f' #{sequence}' if sequence is not None else ''}" if op else "a collective"
    where = f" of group {group.progress.label}" if group.name and len(groups) > 1 else ""
    reporting = ranks_in(group.events)
    on = ranks_text(reporting) if len(reporting) == 1 else count(len(reporting), "rank")
    yield Finding(
        "watchdog_timeout", "critical", weight,
        f"{what}{where} timed out{f' on {on}' if reporting else ''}{f' after {duration(ran / 1000)}' if ran else ''}: "
        f"{f'{ranks_text(behind)} ' if behind else ''}{how}",
        ranks=behind, nodes=homes(job, behind) if behind else hosts_in(job, group.events),
        evidence=lines(group.events), advice=WHY,
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
    if len(reported) > 1 and group.members is not None and group.members <= reported:
        return (), "all that report had launched it, and it did not complete", 0.6
    unread = (group.members or frozenset[int]()) - reported
    return (), f"of {who(unread, 'the other ranks')} there is no word, so nothing tells who had not launched it", 0.5


def gloo_timed_out(job: Job) -> Iterator[Finding]:
    """watchdog_timeout by gloo: a rank's word that nothing came from a peer, which gloo does not name.

    By elimination: ranks that say nothing, while the others waited or lost their connections, had not come.
    """
    events = said(job, "gloo.timeout")
    if not events:
        return
    own = {rank for kind in ("gloo.timeout", "gloo.closed", "python.exception") for rank in ranks_in(said(job, kind))}
    known = known_ranks(job)
    unheard = tuple(sorted(known - own))
    unheard = unheard if own and len(unheard) * 2 <= len(known) else ()
    waited = next((ms for event in events if (ms := number_of(event, "ms"))), None)
    absent = f"{ranks_text(unheard)} {of_several('says', len(unheard))} nothing and had not come"
    yield Finding(
        "watchdog_timeout", "critical", 0.7 if unheard else 0.5,
        f"{who(ranks_in(events))} waited in vain over gloo{f' for {duration(waited / 1000)}' if waited else ''}"
        f": {absent if unheard else 'nothing tells who did not come'}",
        ranks=unheard, nodes=() if unheard else hosts_in(job, events), evidence=lines(events), advice=WHY,
    )  # fmt: skip


# --- calls that differ -------------------------------------------------------------------------------------------


def _differing(job: Job, launched: Mapping[int, Operation], weights: tuple[float, float], proof: Sequence[Proof]
               ) -> Iterator[Finding]:  # fmt: skip
    """Ranks of one communicator that launched something else at one number."""
    how = mismatch(launched) if len({one.seq for one in launched.values()}) == 1 else None
    if how is not None:
        calls = {rank: _text(launched[rank], sized=how.what != "name") for rank in launched}
        kind = "collective_mismatch" if how.what == "name" else "collective_size_mismatch"
        yield from _calls_differ(job, kind, weights, calls, proof)


def differing_calls(job: Job) -> Iterator[Finding]:
    """collective_mismatch by the tracebacks of a time-out: ranks were in different operations of torch.distributed."""
    events = [event for event in said(job, "python.exception", "collective_timeout", "connection") if _call(event)]
    calls = {event.rank: _call(event) for event in events if event.rank is not None}
    if any(text_of(event, "signature") == "collective_timeout" for event in events):
        yield from _calls_differ(job, "collective_mismatch", (0.85, 0.6), calls, _lines(events))


def _call(event: LogEvent) -> str:
    """The operation of torch.distributed that a traceback is in; empty where it is in none."""
    calls = [found.group(1) for frame in words_of(event, "frames") if (found := _OPERATION.search(frame))]
    return calls[-1] if calls else ""


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
    kind = "collective_size_mismatch" if size_only else "collective_mismatch"
    yield from _calls_differ(job, kind, (0.93, 0.75), ran, _lines(events))


def _calls_differ(job: Job, kind: str, weights: tuple[float, float], calls: Mapping[int, str], proof: Sequence[Proof]
                  ) -> Iterator[Finding]:  # fmt: skip
    """Ranks that called something else than most; the second weight counts where nobody knows which side is odd."""
    counted = vote(calls)
    if counted is None:
        return
    by_call: dict[str, list[int]] = defaultdict(list)
    for rank in sorted(calls, key=lambda rank: (rank not in counted.odd, rank)):
        by_call[calls[rank]].append(rank)
    told = listed([f"{ranks_text(ranks)} {call}" for call, ranks in by_call.items()])
    yield Finding(
        kind, "critical", weights[counted.tied], f"ranks launched different collectives: {told}",
        ranks=counted.odd_ranks, nodes=_nodes(job, counted.odd_ranks), evidence=_odd_first(proof, counted.odd_ranks),
        advice=CODE,
    )  # fmt: skip


RULES = (gloo_timed_out, watchdog_timeout, differing_calls, fingerprints)
STATUS_RULES = (fewer_launched,)
