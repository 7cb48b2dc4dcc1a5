"""Threads of a rank that ended by an exception while the rank lived on: what they were to bring never comes."""

from __future__ import annotations

from collections.abc import Container, Iterable

from hangtop.diagnosis.evidence.event_fields import text_of
from hangtop.diagnosis.failures.record import Failure, failures
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.waits.rank_status import RankStatus


def failed_thread(job: Job, status: RankStatus, missed: Container[str] = ()) -> Failure | None:
    """Return the last of the exceptions that ended a thread of this rank, as its log tells; None where none did.

    One that has the name of a thread which is seen at work is of an earlier one, or was started again. Of a log that
    several ranks write, and that says of none whose it is, a thread is this one's that is ``missed`` there.
    """
    alive = _threads(status)
    told = [
        failure
        for failure in failures(job)
        if (name := text_of(failure.event, "thread")) not in {"", "MainThread", *alive}
        and (failure.rank == status.rank or (failure.rank is None and name in missed))
    ]
    return told[-1] if told else None


def missing_threads(status: RankStatus, others: Iterable[RankStatus]) -> frozenset[str]:
    """Threads of the job's own code that ``others`` all have and this rank has not, by names that were given to them.

    Names that Python gives count up: the same thread may have another number on another rank.
    """
    if status.activity is not None and status.activity.thread != "main":
        return frozenset()  # one of its threads is judged: it is none of the others, and is there
    theirs = [_threads(other) for other in others if other.rank != status.rank and other.read]
    missed = set.intersection(*theirs) - _threads(status) if theirs else set()
    return frozenset(name for name in missed if not name.startswith(("Thread-", "ThreadPoolExecutor-")))


def _threads(status: RankStatus) -> set[str]:
    """Names of its threads that are in the job's own code, beside the one that is judged."""
    doing = status.activity
    return {note.name.partition(" ")[0] for note in doing.others} if doing is not None else set()


def thread_told(failure: Failure) -> str:
    """``its thread tokenizer failed with UnicodeDecodeError: … at fill (data.py:31)``."""
    where = f" at {failure.frame}" if failure.frame else ""
    return f"its thread {text_of(failure.event, 'thread')} failed with {failure.what}{where}"
