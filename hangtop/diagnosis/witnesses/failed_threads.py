"""Threads of a rank that ended by an exception while the rank lived on: what they were to bring never comes."""

from __future__ import annotations

from hangtop.diagnosis.job import Job
from hangtop.diagnosis.waits.rank_status import RankStatus
from hangtop.diagnosis.witnesses.failures import Failure, failures, text_of


def failed_thread(job: Job, status: RankStatus) -> Failure | None:
    """Return the last of the exceptions that ended a thread of this rank, as its log tells; None where none did.

    One that has the name of a thread which is seen at work is of an earlier one, or was started again.
    """
    doing = status.activity
    alive = {note.name.partition(" ")[0] for note in doing.others} if doing is not None else set()
    told = [
        failure
        for failure in failures(job)
        if failure.rank == status.rank and text_of(failure.event, "thread") not in {"", "MainThread", *alive}
    ]
    return told[-1] if told else None


def thread_told(failure: Failure) -> str:
    """``its thread tokenizer failed with UnicodeDecodeError: … at fill (data.py:31)``."""
    where = f" at {failure.frame}" if failure.frame else ""
    return f"its thread {text_of(failure.event, 'thread')} failed with {failure.what}{where}"
