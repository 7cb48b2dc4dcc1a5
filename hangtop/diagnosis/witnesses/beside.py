"""What stands beside a failure that names no rank: the same words with one, hosts, a launcher that ended the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.witnesses.event_fields import number_of, text_of
from hangtop.diagnosis.witnesses.failures import VICTIM_SIGNALS, Failure
from hangtop.diagnosis.witnesses.messages import said

FROM_OUTSIDE = ("slurm.cancelled", "elastic.signal")
"""A batch system's word, and a launcher's that it was itself told to end."""


def named_beside(job: Job, failure: Failure) -> tuple[int, ...]:
    """Ranks that a logger names in a line with the very words of an exception that stands without one."""
    message = text_of(failure.event, "message").splitlines()[:1]
    if failure.manner != "exception" or not message or len(message[0]) < 8:
        return ()
    lines = [event for event in said(job, "log.error") if text_of(event, "message").startswith(message[0])]
    told = {event.rank if event.rank is not None else number_of(event, "about") for event in lines}
    return tuple(sorted(rank for rank in told if rank is not None))


def called(events: Iterable[LogEvent]) -> str:
    """What to call whose words these are where no rank is known: ``local rank 3``, by a label or a file."""
    local = {number_of(event, "local_rank") for event in events}
    number = next(iter(local)) if len(local) == 1 else None
    return "a rank" if number is None else f"local rank {number}"


def hosts_alike(failure: Failure, ended: Sequence[tuple[Failure, ...]]) -> tuple[str, ...]:
    """The host of a failure, else that of another word about its rank, else those that ended by the same signal."""
    own = [word for words in ended for word in words if word.rank is not None and word.rank == failure.rank]
    alike = [word for words in ended for word in words if word.rank is None and word.signal == failure.signal != ""]
    return tuple(
        sorted({failure.host} - {""} or {word.host for word in own} - {""} or {word.host for word in alike} - {""})
    )


def taken_along(job: Job, ended: Sequence[tuple[Failure, ...]]) -> bool:
    """A launcher ended all who are told of, as another one had failed, of which there is no word."""
    signalled = all(any(word.signal in VICTIM_SIGNALS for word in words) for words in ended)
    outside = any(event.kind in FROM_OUTSIDE for event in job.events)
    return signalled and not outside and bool(said(job, "launcher.killed"))
