"""Which rank has not launched a collective that others wait in, or launched another one.

Sources: NCCL RAS, NCCL's COLL lines, time-outs of torch's watchdog and of gloo, and the fingerprints of
TORCH_DISTRIBUTED_DEBUG=DETAIL; :mod:`hangtop.diagnosis.rules.recorder` does the same by recorder dumps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from hangtop.diagnosis.collectives.counts import progress_by_log, progress_by_ras
from hangtop.diagnosis.collectives.progress import LaunchProgress, Operation, WaitEdge, differing_field, leading, vote
from hangtop.diagnosis.collectives.watchdog import TimedOutGroup, timed_out
from hangtop.diagnosis.evidence.event_fields import number_of, text_of, words_of
from hangtop.diagnosis.evidence.events import LINES_SHOWN, event_line, finished, hosts_in, lines, log_events, ranks_in
from hangtop.diagnosis.finding import Evidence, Finding, Observer, of_ranks
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import duration, listed, ranks_text, waiters_text
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import WAITS

CODE = "Look for a collective behind `if rank == …` (evaluation, logging, saving), and for uneven batches or shapes."
STACKS = f"These ranks have not launched what the others wait in: look at their last log lines and their stacks. {CODE}"
KEPT = "The time-out is a consequence: find what kept the ranks that had not launched the operation."
ALL_CAME = "If all had launched it, suspect network, GPU or sizes; TORCH_DISTRIBUTED_DEBUG=DETAIL makes torch say more."
OWN_GPU = "Suspect a kernel on that GPU that does not end, or the GPU itself: look at its power, clocks and Xid errors."
PAIR_UP = "Pair sends with receives: even ranks send first, odd ranks receive first; or use batch_isend_irecv."
Proof = tuple["int | None", Evidence]
"""The rank that a line of evidence is about, and the line."""


def not_launched(
    job: Job, ranks: Sequence[int], edges: Sequence[WaitEdge], waiters: Collection[int], weight: float,
    evidence: Iterable[Evidence],
) -> Finding:  # fmt: skip
    """collective_mismatch: these ranks have not launched the operations of these edges, in which others wait."""
    hosts = {line.host for line in job.progress if line.global_rank in ranks and line.host}
    missed = list(dict.fromkeys(map(_missed, edges)))
    return of_ranks(
        "collective_mismatch", weight, ranks, homes(job, ranks) or sorted(hosts),
        f"has not launched {listed(missed, 2)}; {waiters_text(waiters, 'other')}", evidence, STACKS,
    )  # fmt: skip


def _missed(edge: WaitEdge) -> str:
    """The counterpart that a waiting operation lacks."""
    other = {"send": "receive from", "recv": "send to"}.get(edge.operation)
    return f"the {other} rank {edge.waiter}" if other else f"{edge.operation} #{edge.seq} of group {edge.group}"


def differing(
    job: Job, launched: Mapping[int, Operation], weights: tuple[float, float], proof: Sequence[Proof]
) -> Iterator[Finding]:
    """A finding if ranks of one communicator launched different operations, sizes or types at one number."""
    field = differing_field(launched) if len({operation.seq for operation in launched.values()}) == 1 else None
    if field is not None:
        sizes = field != "name"
        calls = {rank: operation_text(operation, sized=sizes) for rank, operation in launched.items()}
        yield from _odd_calls(job, calls, weights, proof, sizes=sizes)


def operation_text(operation: Operation, *, sized: bool = False) -> str:
    """``all_reduce #7``, ``all_reduce #7 of 4096 Float``."""
    size = f"{operation.size} {operation.dtype}".rstrip() if sized else ""
    return f"{operation.name} #{operation.seq}{f' of {size}' if size else ''}"


def _odd_calls(
    job: Job, calls: Mapping[int, str], weights: tuple[float, float], proof: Sequence[Proof], *, sizes: bool
) -> Iterator[Finding]:
    """A finding about the ranks whose call differs from most; on a tie it has the second weight."""
    counted = vote(calls)
    if counted is None:
        return
    by_call: dict[str, list[int]] = defaultdict(list)
    for rank in sorted(calls, key=lambda rank: (rank not in counted.odd, rank)):
        by_call[calls[rank]].append(rank)
    odd, calls_text = tuple(counted.odd), listed([f"{ranks_text(ranks)} {call}" for call, ranks in by_call.items()])
    yield Finding(
        "collective_size_mismatch" if sizes else "collective_mismatch", "critical", weights[counted.tied],
        f"ranks launched different collectives: {calls_text}", ranks=odd, nodes=homes(job, odd),
        evidence=_of(proof, odd), advice=CODE,
    )  # fmt: skip


def _of(proof: Sequence[Proof], ranks: Collection[int]) -> tuple[Evidence, ...]:
    """A few lines of evidence, those about these ranks first."""
    return tuple(line for _, line in sorted(proof, key=lambda pair: pair[0] not in ranks)[:LINES_SHOWN])


# --- NCCL's own counts -------------------------------------------------------------------------------------------


def by_counts(job_status: JobStatus) -> Iterator[Finding]:
    """collective_mismatch and collective_size_mismatch by NCCL RAS and by NCCL's COLL lines.

    COLL lines count live only while the job stands still, and in saved logs only if the run did not complete.
    """
    job = job_status.job
    stands = job_status.hung or (job.stood_still or 0.0) >= job_status.alarm_after
    by_log = progress_by_log(job) if (stands if job.live else not finished(job)) else ()
    waiting = {status.rank for status in job_status.of(*WAITS)}
    for observer, records in ((Observer.RAS, progress_by_ras(job)), (Observer.LOG, by_log)):
        ran_ahead = [r for r in records if r.ahead and waiting.issuperset(r.last) and job_status.hung]
        for record in ran_ahead:
            calls = {rank: operation_text(last) for rank, last in record.last.items()}
            yield from _odd_calls(job, calls, (0.7, 0.6), _counts(observer, record), sizes=False)
        for record in leading([record for record in records if record not in ran_ahead]):
            yield not_launched(
                job, record.behind, [*record.edges()][:1], record.waiting, _weight_behind(observer, record),
                _of(_counts(observer, record), record.behind),
            )  # fmt: skip
    for record in by_log:
        yield from differing(job, record.last, (0.8, 0.6), _counts(Observer.LOG, record))


def _weight_behind(observer: Observer, progress: LaunchProgress) -> float:
    """Weight of the ranks that are behind by counts, which also differ for a moment in a job in motion."""
    if observer is Observer.RAS and not progress.certain:
        return 0.6
    if 2 * len(progress.behind) > len(progress.last):
        return 0.7
    return 0.85 if progress.certain else 0.8


def _counts(observer: Observer, progress: LaunchProgress) -> list[Proof]:
    where = f"communicator {progress.label}"
    return [
        (rank, Evidence(observer, op.source, op.since, f"{where}: rank {rank} launched {operation_text(op)} last"))
        for rank, op in progress.last.items()
    ]


# --- torch's watchdog, gloo, and torch's checks ------------------------------------------------------------------


def watchdog_timeout(job: Job) -> Iterator[Finding]:
    """watchdog_timeout: a collective timed out; a consequence, which names the ranks that had launched least.

    The finding is about the first group whose late ranks do not wait in another group. Different operations or sizes at
    one sequence number are a mismatch as well.
    """
    groups = timed_out(job)
    if not groups:
        return
    for group in groups:
        proof = [(event.rank, event_line(event)) for event in group.timeouts]
        if found := list(differing(job, group.progress.waiting, (0.85, 0.85), proof)):
            yield from found
            break
    ends = leading([group.progress for group in groups])
    late = [g for g in groups if g.progress in ends] or [g for g in groups if g.progress.uncovered]
    group = (late or groups)[0]
    behind, how, advice, weight = _behind(group)
    first = (group.timeouts or group.events)[0]
    ran = number_of(first, "ran_ms") or number_of(first, "ms") or 0
    op, number = text_of(first, "op"), number_of(first, "seq")
    what = f"{op}{'' if number is None else f' #{number}'}" if op else "a collective"
    after = f" after {duration(ran / 1000)}" if ran else ""
    where = f" of group {group.progress.label}" if group.progress.label else ""
    yield Finding(
        "watchdog_timeout", "critical", weight, f"{what}{where} timed out{after}: {how}",
        ranks=behind, nodes=homes(job, behind) if behind else hosts_in(job, group.events),
        evidence=lines(group.events), advice=advice,
    )  # fmt: skip


def _behind(group: TimedOutGroup) -> tuple[tuple[int, ...], str, str, float]:
    """Ranks that had launched least, the text for it, the advice, and its weight.

    A member without any report in a log that was read, while its peers report, had not launched the collective either.
    """
    progress, reported = group.progress, set(ranks_in(group.events))
    behind = () if progress.trickles else progress.behind
    if behind and len(behind) * 2 <= len(progress.last):
        numbers = [progress.last[rank].seq for rank in behind]
        newest = max(operation.seq for operation in progress.last.values())
        return behind, f"{ranks_text(behind)} had launched {min(numbers)} of {newest}", KEPT, 0.8
    passed = tuple(sorted(progress.passed))
    if passed and 2 * len(passed) <= len(progress.last):
        return passed, f"{ranks_text(passed)} had launched it, and other ranks completed it", OWN_GPU, 0.7
    if missing := progress.uncovered:
        how = f"{ranks_text(missing)} had not launched it (no time-out in the log)"
        return missing, how, KEPT, 0.8 if progress.last else 0.7
    unread = group.members - reported
    if len(reported) > 1 and group.members and progress.last and not unread:
        return (), "all ranks that report had launched it, and it did not complete", ALL_CAME, 0.6
    others = ranks_text(unread) or "the other ranks"
    return (), f"no report from {others}, so it is unknown which rank had not launched it", ALL_CAME, 0.5


def fingerprints(job: Job) -> Iterator[Finding]:
    """collective_mismatch and collective_size_mismatch by TORCH_DISTRIBUTED_DEBUG=DETAIL.

    Each line names only a pair of ranks, so the calls of all ranks are collected from all lines and put to the vote.
    """
    events, ran = log_events(job, "torch.fingerprint"), dict[int, str]()
    differs = {word for event in events for word in words_of(event, "differs")}
    sizes = bool(differs) and differs <= {"shape", "dtype"}
    for event in events:
        for side in ("a", "b"):
            rank, number = number_of(event, f"rank_{side}"), number_of(event, f"seq_{side}")
            what = f"#{number}" if number is not None else ""
            if sizes:
                what = f"of {event.data.get(f'shape_{side}')} {text_of(event, f'dtype_{side}')}"
            if rank is not None:
                ran.setdefault(rank, f"{text_of(event, f'op_{side}')} {what}".strip())
    yield from _odd_calls(job, ran, (0.93, 0.75), [(event.rank, event_line(event)) for event in events], sizes=sizes)


RULES = (watchdog_timeout, fingerprints)
STATUS_RULES = (by_counts,)
