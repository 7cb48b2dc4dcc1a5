"""Which rank has not launched a collective, or launched another one, by logs and by NCCL RAS.

Logs tell by NCCL's COLL lines, and by torch's words: time-outs of its watchdog and of gloo, tracebacks, and the
fingerprints of TORCH_DISTRIBUTED_DEBUG=DETAIL.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.collectives import counts
from hangtop.diagnosis.collectives.mismatch import mismatch, vote
from hangtop.diagnosis.collectives.progress import LaunchProgress, Operation, leading
from hangtop.diagnosis.collectives.watchdog import TimedOutGroup, timed_out
from hangtop.diagnosis.evidence.event_fields import number_of, text_of, words_of
from hangtop.diagnosis.evidence.events import finished, hosts_in, lines, ranks_in, said
from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, duration, listed, of_several, ranks_text, who
from hangtop.diagnosis.roster import homes, known_ranks
from hangtop.diagnosis.waits.job_status import JobStatus

_OPERATION = re.compile(r"torch/distributed/distributed_c10d\.py:\d+ in (?!wrapper\b|_)(\w+)")
CODE = (
    "Look for a collective behind `if rank == …` (evaluation, logging, a checkpoint of rank 0 alone), for ranks with "
    "different numbers of batches, or for shapes that differ."
)
STACKS = "These ranks have not launched what the others wait in: look at their last log lines and their stacks."
WHY = (
    "The time-out is a consequence: find what kept this rank (its last log lines, its stack). "
    "TORCH_DISTRIBUTED_DEBUG=DETAIL makes torch say more."
)
NOBODY = (
    "Where every rank had launched it, suspect the network, a GPU, or sizes that differ; else the one that had not is "
    "to blame: look at the logs of all ranks."
)


def fewer_launched(job_status: JobStatus) -> Iterator[Finding]:
    """collective_mismatch and collective_size_mismatch by NCCL RAS and by NCCL's COLL lines.

    Live, COLL lines count only while the job stands still; ranks that are done have not all written their last lines.
    """
    job = job_status.job
    records = counts.progress_by_ras(job)
    stands = job_status.hung or (job.stood_still or 0.0) >= job_status.alarm_after
    told = counts.progress_by_log(job) if (stands if job.live else not finished(job)) else ()
    for one in (*leading(records), *leading(told)):
        weight = 0.7 if 2 * len(one.behind) > len(one.last) else 0.85 if one.certain else 0.8
        observer = Observer.RAS if one in records else Observer.LOG
        yield _odd(job, "collective_mismatch", weight, one, one.behind, observer)
    for one in told:
        how = mismatch(one.last) if len({operation.seq for operation in one.last.values()}) == 1 else None
        if how is not None:
            kind = "collective_mismatch" if how.what == "name" else "collective_size_mismatch"
            yield _odd(job, kind, 0.6 if how.counted.tied else 0.8, one, how.counted.odd_ranks, Observer.LOG)


def _odd(job: Job, kind: str, weight: float, one: LaunchProgress, odd: Collection[int], observer: Observer) -> Finding:
    """Ranks of one communicator that are elsewhere than the others."""
    others = sorted(one.last.keys() - set(odd), key=lambda rank: -one.last[rank].seq)
    rest = f", {count(len(others), 'other')} at {_at(one.last[others[0]])}" if others else ""
    hosts = {line.host for line in job.progress if line.global_rank in odd and line.host}
    return Finding(
        kind, "critical", weight, f"{listed([f'rank {rank} is at {_at(one.last[rank])}' for rank in odd])}{rest}",
        ranks=tuple(odd), nodes=homes(job, odd) or tuple(sorted(hosts)),
        evidence=tuple(
            Evidence(observer, one.last[rank].source, one.last[rank].since,
                     f"communicator {one.label}: rank {rank} at {_at(one.last[rank])}")
            for rank in (*list(odd)[:3], *others[:1])
        ),
        advice=STACKS if one.certain else CODE,
    )  # fmt: skip


def _at(one: Operation) -> str:
    return f"{one.name} #{one.seq}{f' of {one.size} {one.dtype}'.rstrip() if one.size else ''}"


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
        if differing := _mismatch(job, group):
            yield differing
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


def _mismatch(job: Job, group: TimedOutGroup) -> Finding | None:
    """Ranks of one group that launched something else at one number."""
    waiting = group.progress.waiting
    how = mismatch(waiting) if len({one.seq for one in waiting.values()}) == 1 else None
    if how is None:
        return None
    told = {rank: _at(one if how.what == "size" else one._replace(size="")) for rank, one in waiting.items()}
    proof = sorted(group.timeouts, key=lambda event: event.rank not in how.counted.odd)
    kind = "collective_size_mismatch" if how.what == "size" else "collective_mismatch"
    return _calls_differ(job, kind, (0.85, 0.85), "wait in", told, proof)


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


# --- calls that differ, by torch's words -------------------------------------------------------------------------


def differing_calls(job: Job) -> Iterator[Finding]:
    """collective_mismatch by the tracebacks of a time-out: ranks were in different operations of torch.distributed."""
    events = [event for event in said(job, "python.exception", "collective_timeout", "connection") if _call(event)]
    calls = {event.rank: _call(event) for event in events if event.rank is not None}
    late = any(text_of(event, "signature") == "collective_timeout" for event in events)
    if late and (found := _calls_differ(job, "collective_mismatch", (0.85, 0.6), "timed out in", calls, events)):
        yield found


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
    if found := _calls_differ(job, kind, (0.93, 0.75), "ran", ran, events):
        yield found


def _calls_differ(
    job: Job, kind: str, weights: tuple[float, float], verb: str, calls: Mapping[int, str], proof: Sequence[LogEvent]
) -> Finding | None:
    """Ranks that called something else than most; the second weight counts where nobody knows which side is odd."""
    counted = vote(calls)
    if counted is None:
        return None
    by_call: dict[str, list[int]] = defaultdict(list)
    for rank in sorted(calls, key=lambda rank: (rank not in counted.odd, rank)):
        by_call[calls[rank]].append(rank)
    told = listed([f"{ranks_text(ranks)} {call}" for call, ranks in by_call.items()])
    odd = counted.odd_ranks
    return Finding(
        kind, "critical", weights[counted.tied], f"ranks {verb} different collectives: {told}", ranks=odd,
        nodes=homes(job, odd), evidence=lines(sorted(proof, key=lambda event: event.rank not in odd)), advice=CODE,
    )  # fmt: skip
