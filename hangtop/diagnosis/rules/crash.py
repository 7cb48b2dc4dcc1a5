"""The first failure of a job: the rank that raised, was killed or is gone without a word before all others ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hangtop.diagnosis.evidence.event_fields import text_of, words_of
from hangtop.diagnosis.evidence.events import said
from hangtop.diagnosis.failures.first import RankEnd, ended_ranks, first_failure, lost_connections
from hangtop.diagnosis.failures.record import Failure
from hangtop.diagnosis.failures.unheard import SilentRanks, logs_behind
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, of_several, ranks_text
from hangtop.diagnosis.rules.engine import nccl_failures
from hangtop.diagnosis.rules.gpus import hardware_kind
from hangtop.diagnosis.rules.victims import LOOK_FOR_THE_KILL, all_victims, ended_finding, left_no_word, timed_out
from hangtop.diagnosis.waits.job_status import JobStatus

TOLD_ELSEWHERE = {
    "out_of_memory": "", "store": "", "rendezvous": "", "fingerprint": "", "collective_timeout": "",
    "address_in_use": "", "unused_parameters": "", "worker_died": "torch.worker_died",
    "open_files": "host.open_files", "processes": "host.processes", "shared_memory": "host.shared_memory",
    "host_memory": "host.memory",
}  # fmt: skip
"""Signatures of exceptions that a rule reports under a kind that says more, and the event that the rule needs."""


def first_to_fail(job_status: JobStatus) -> Iterator[Finding]:
    """rank_crashed, rank_killed, rank_left_early or child_failed_no_detail: the first end that is no consequence.

    Live, only ranks whose process is gone or shuts down count. Where all who speak are victims, the rank that left no
    word is named.
    """
    job = job_status.job
    ends, closed = ended_ranks(job_status), lost_connections(job)
    first = first_failure(ends)
    alone = [end for end in ends if not end.cause.consequence]
    if first is None:
        if not logs_behind(job_status):
            yield from all_victims(job, ends, closed)
    elif _was_killed(first):
        yield _killed(job, first)
    elif closed and all(end.unheard for end in alone):
        if not logs_behind(job_status):
            silent = SilentRanks(tuple(sorted({end.rank for end in alone if end.rank is not None})))
            yield left_no_word(job, silent, [end for end in ends if end not in alone], closed)
    elif first.bare:
        if not nccl_failures(job):
            yield _no_detail(job_status, ends, first.cause)
    elif not _told_elsewhere(job, first):
        yield _crashed(job_status, ends, first)


def _crashed(job_status: JobStatus, ends: Sequence[RankEnd], first: RankEnd) -> Finding:
    """The earliest exception, signal or abort; ranks that ended by the same one together; where the others hang."""
    failure = first.cause
    alike = [end for end in ends if end is first or _alike(end.cause, failure)]
    ranks = tuple(sorted({end.rank for end in alike if end.rank is not None}))
    others = len({end.rank for end in ends} - {*ranks, None})
    after = f"; {count(others, 'other')} fell over afterwards" if others else ""
    graph = job_status.graph
    hang = [point for point in graph.points if not set(ranks) & set(point.ranks)] if graph is not None else []
    if hang:
        after += f"; {ranks_text(hang[0].ranks)} {of_several('waits', len(hang[0].ranks))} {hang[0].told}"
    return ended_finding(
        job_status.job, "rank_crashed", 0.9 if failure.at is not None or len(ends) == len(alike) else 0.75, ranks,
        [end.cause for end in alike], f"failed first: {failure.told}{after}", [word.event for word in first.words[:3]],
        "Mend this one; the other ranks' errors follow from it." if others else "Look at the first traceback.",
    )  # fmt: skip


def _alike(one: Failure, first: Failure) -> bool:
    """The same exception at the same line, or the same signal in the same second: which was first, nobody knows."""
    raised = one.manner == first.manner == "exception" and (one.what, one.frame) == (first.what, first.frame)
    return raised or (bool(first.signal) and _same_exit(one, first))


def _same_exit(one: Failure, other: Failure) -> bool:
    """Two ranks that ended with the same exit code in one second, or that one line tells of."""
    alike = (one.manner, one.what, one.consequence) == (other.manner, other.what, False)
    line = one.event.line > 0 and (one.event.source, one.event.line) == (other.event.source, other.event.line)
    return alike and (line or one.at == other.at is not None)


def _was_killed(end: RankEnd) -> bool:
    """SIGKILL or a word of the kernel about memory, and no word of the rank's own that says why."""
    own = any(
        word.manner in ("exception", "gpu_memory") or word.event.data.get("spoken") is True
        for word in end.words
        if not word.consequence
    )
    return not own and any(word.signal == "KILL" or word.manner == "memory" for word in end.words)


def _killed(job: Job, end: RankEnd) -> Finding:
    memory = any(word.manner == "memory" or text_of(word.event, "reason") == "OOMKilled" for word in end.words)
    memory = memory or any(  # Slurm says of no task by name that the kernel killed one for want of memory
        event.rank is None and "task" not in event.data and event.host in ("", end.cause.host)
        for event in said(job, "slurm.out_of_memory")
    )
    by = "the kernel: out of memory" if memory else "SIGKILL from outside (out of memory, a batch system, somebody)"
    return ended_finding(
        job, "rank_killed", 0.95 if memory else 0.88, () if end.rank is None else (end.rank,), [end.cause],
        f"was killed by {by}", [word.event for word in end.words[:4]],
        "Give the node's job more memory or use less (data loader workers, pinned memory, what is cached)."
        if memory else LOOK_FOR_THE_KILL,
    )  # fmt: skip


def _told_elsewhere(job: Job, end: RankEnd) -> bool:
    """Whether a rule on what happened says more of the first failure than that the rank crashed."""
    first, frames = end.cause, " ".join(words_of(end.cause.event, "frames"))
    event = TOLD_ELSEWHERE.get(first.signature)
    if event is not None and (not event or said(job, event)):
        return True
    if first.cut:  # the end of its traceback is missing: any word of what went wrong says more
        waited = "rendezvous" in frames and (said(job, "torch.store_timeout") or said(job, "elastic.rendezvous"))
        return bool(nccl_failures(job) or waited or timed_out(job, first))
    unresolved = bool(said(job, "torch.unresolved")) and "torch/distributed" in frames
    hardware = bool(hardware_kind(first.what)) or "invalid device ordinal" in first.what.lower()
    return first.manner == "gpu_memory" or unresolved or hardware


def _no_detail(job_status: JobStatus, ends: Sequence[RankEnd], first: Failure) -> Finding:
    """A launcher's exit code is all that is known of the first failure."""
    alike = [end.cause for end in ends if end.cause is first or _same_exit(end.cause, first)]
    ranks = tuple(sorted({failure.rank for failure in alike if failure.rank is not None}))
    unread = logs_behind(job_status)
    return ended_finding(
        job_status.job, "child_failed_no_detail", 0.5 if unread else 0.7, ranks, alike,
        f"failed{' in the same second' if len(ranks) > 1 else ' first'} with {first.what}"
        f"{'; its log is not read to the end yet' if unread else ', and no traceback was recorded'}",
        [failure.event for failure in alike[:3]],
        "Decorate the main function with torch.distributed.elastic.multiprocessing.errors.record, or start with "
        "torchrun --tee 3 --log-dir DIR, and look at that rank's own output.",
    )  # fmt: skip
