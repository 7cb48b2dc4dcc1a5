"""Which ranks ended, and what is known of each: the words that the rules of crashes judge by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from hangtop.diagnosis.evidence.event_fields import text_of, when
from hangtop.diagnosis.failures.ends import is_bare, is_cut, is_unheard, is_victim, own_words, time_of_end, weight
from hangtop.diagnosis.failures.record import Failure, by_rank, failures
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.rules.nccl import lost_connections
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import RankStatus, State

ENDED: tuple[State, ...] = ("gone", "missing", "leaving")
"""States in which a rank of a live job may be said to have failed; one that works on has survived its traceback."""

LATE_S = 5.0
"""Seconds by which others log the last step after a rank has raised in it, or their clocks differ, at the most."""

WENT_ON_S = 15.0
"""Seconds after an exception in which a job is still seen to move though it is the end of one of its ranks."""


def ended_ranks(job_status: JobStatus) -> list[tuple[Failure, ...]]:
    """Words about each rank that ended, the weightiest word first, ranks in the order of their failures."""
    told = by_rank(failures(job_status.job))
    kept = []
    for rank, words in told.items():
        status = job_status.statuses.get(rank)
        if job_status.job.live and status is not None and _lives_on(job_status.job, status, words):
            continue
        kept.append(tuple(sorted(own_words(words), key=weight)))
    unnamed = [failure for failure in failures(job_status.job) if failure.rank is None]
    if not job_status.job.live and _told_to_end(job_status.job):
        # why a launcher ended them says more than where that met them: a traceback without its end, a bare exit code
        kept = [words for words in kept if not all(is_cut(word) for word in words) and not is_bare(words)]
        unnamed = [failure for failure in unnamed if not is_cut(failure) and not is_bare([failure])]
    if not kept and unnamed and not job_status.job.live:
        # after the fact a launcher's bare word is worth saying, though nothing tells of which rank it speaks
        return [tuple(sorted(unnamed, key=weight))]
    kept = sorted(kept, key=time_of_end)
    return kept if job_status.job.live else _with_traceback(kept, unnamed)


def _lives_on(job: Job, status: RankStatus, words: Sequence[Failure]) -> bool:
    """Whether a rank has survived what was told of its end: it works on.

    Where nobody could look into it, an exception is its end unless steps were logged since, or the job moves on for
    long after it.
    """
    if status.state in ENDED:
        return False
    if status.read and not _was_seen_before(job, status, words):
        return True
    last_step = job.motion.last_step_at or -inf
    raised = [when(word.event) for word in words if word.manner == "exception" and not word.consequence]
    known = [at for at in raised if at is not None]
    if not known:
        return status.state not in ("refused", "unseen")
    return all(last_step > at + LATE_S or (job.motion.moving and job.now - at > WENT_ON_S) for at in known)


def _was_seen_before(job: Job, status: RankStatus, words: Sequence[Failure]) -> bool:
    """Whether the look at it is older than its exception, since which others have lost a peer: it does not show that.

    On a busy machine, or with much to free, a rank takes long from its traceback to its end.
    """
    raised = [at for word in words if word.manner == "exception" and not word.consequence and (at := when(word.event))]
    if not raised or status.activity is None or status.activity.at >= max(raised):
        return False
    return any(at >= min(raised) for event in lost_connections(job) if (at := when(event)) is not None)


def _with_traceback(kept: list[tuple[Failure, ...]], unnamed: Sequence[Failure]) -> list[tuple[Failure, ...]]:
    """Give the only traceback, which bears no rank, to the rank whose bare exit code the same log tells first."""
    alone = [words for words in kept if not all(word.consequence for word in words)]  # an agent ends the others
    wordless = bool(alone) and all(_called_for_it(words) or is_unheard(words) for words in alone)
    manners = ("exception", "device") if wordless else ("exception",)
    raised = [word for word in unnamed if word.manner in manners and not word.consequence and not is_victim(word)]
    own = [word for word in raised if not is_cut(word)]
    nccl = [word for word in unnamed if word.manner == "exception" and text_of(word.event, "signature") == "nccl"]
    if nccl and not raised and kept and all(map(is_bare, kept)):
        return [tuple(nccl)]  # what a call of NCCL said to a rank that is not named says more than bare exit codes
    if not alone or not own or not all(is_bare(words) or _called_for_it(words) for words in alone):
        return kept
    if len({word.what for word in own}) != 1 or len(own) < len(raised):
        others = len({word.what for word in own}) - 1
        more = f" (or one of {others + 1} tracebacks: which of them, nothing tells)" if others else ""
        own = [replace(own[0], what=own[0].what + more)]
    first = kept[0][0]
    root = any(word.event.data.get("root") is True for word in kept[0])
    if own[0].event.source != first.event.source or (len(kept) > 1 and not root):
        return [(own[0],), *kept] if len(raised) > 1 else kept
    return [(replace(own[0], rank=first.rank), *kept[0]), *kept[1:]]


def _called_for_it(words: Sequence[Failure]) -> bool:
    """A rank of which Open MPI says nothing but that it called MPI_Abort: why, it said itself."""
    return all(text_of(word.event, "reason") == "MPI_ABORT" for word in words)


def _told_to_end(job: Job) -> bool:
    """A batch system or a signal ended the job, and says so with a reason."""
    reasons = {text_of(event, "reason") for event in job.events if event.kind == "slurm.cancelled"}
    return bool(reasons - {"user"}) or any(event.kind == "elastic.signal" for event in job.events)


def _by_themselves(ended: Sequence[tuple[Failure, ...]]) -> list[tuple[Failure, ...]]:
    """Words about those that no other end and no signal sent to all took along."""
    return [words for words in ended if not words[0].consequence and not is_victim(words[0])]


def first_failure(ended: Sequence[tuple[Failure, ...]]) -> tuple[Failure, ...] | None:
    """Words about the first rank that failed by itself; None where all are victims."""
    return next(iter(_by_themselves(ended)), None)


def unheard_ranks(ended: Sequence[tuple[Failure, ...]]) -> tuple[int, ...]:
    """Ranks that are gone by their launcher's word alone, where nobody else failed by itself."""
    failed = _by_themselves(ended)
    ranks = tuple(sorted({words[0].rank for words in failed if words[0].rank is not None}))
    return ranks if all(map(is_unheard, failed)) else ()
