"""Words about the end of one rank: which weighs most, whose it is, and which only tell of another's end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import number_of, text_of
from hangtop.diagnosis.evidence.events import hosts_in, ranks_in, said
from hangtop.diagnosis.failures.record import CLOCKS_S, VICTIM_SIGNALS, Failure, by_rank, failures, signal_name
from hangtop.diagnosis.job import Job

VICTIM_SIGNATURES = frozenset({"connection", "interrupt", "child_failed", "nccl"})
"""Signatures that tell of somebody else's end, unless nobody else ended."""


def is_bare(words: Sequence[Failure]) -> bool:
    """A launcher's word that a rank ended, without a signal, a traceback or a message."""
    own = [word for word in words if not word.consequence] or words
    return all(word.manner == "exit" and not word.signal and not text_of(word.event, "type") for word in own)


def is_unheard(words: Sequence[Failure]) -> bool:
    """A rank that is gone by its launcher's word alone, which knows no exit code: it left none of its own."""
    told = all(number_of(word.event, "exitcode") is None for word in words)
    return words[0].rank is not None and told and is_bare(words)


def of_children(ended: Sequence[tuple[Failure, ...]]) -> bool:
    """Nothing but exceptions by which parents tell that a child ended."""
    return all(text_of(word.event, "signature") == "child_failed" for words in ended for word in words)


def is_cut(failure: Failure) -> bool:
    """A traceback whose end is missing: it does not say what was raised."""
    return failure.event.kind == "python.exception" and not text_of(failure.event, "type")


def signalled(job: Job) -> bool:
    """Whether a program says in words of its own that a child ended by a signal that nobody sends to victims."""
    return any(
        text_of(event, "told") == "exit" and signal_name(event) not in ("", *VICTIM_SIGNALS)
        for event in said(job, "log.error")
        if event.data.get("survived") is not True
    )


def own_words(words: Sequence[Failure]) -> Sequence[Failure]:
    """A launcher's bare exit code adds nothing to what the rank says itself: that it is a victim, as a rule.

    Nor does a traceback without its end, where the same is there with it: launchers print what they cut short. Nor an
    abort without a reason after the rank has raised for want of another: threads of C++ that nobody joined end it so.
    """
    whole = {word.frame for word in words if word.event.kind == "python.exception" and not is_cut(word)}
    said_itself = [word for word in words if word.manner != "exit" or word.signal]
    if any(word.manner == "exception" and word.consequence for word in words):
        said_itself = [word for word in said_itself if word.signal != "ABRT" or _speaks(word)]
    return [word for word in said_itself if not is_cut(word) or word.frame not in whole] or words


def weight(failure: Failure) -> tuple[bool, bool, float]:
    """Order a rank's own words: causes before consequences, then those that say what happened, then by time.

    Those without any, of which no line near them tells one, come last, as they do in a log.
    """
    says_little = (failure.manner == "exit" and not failure.signal) or (
        failure.signal == "ABRT" and not _speaks(failure)
    )
    return failure.consequence or is_victim(failure), says_little, inf if failure.at is None else failure.at


def _speaks(failure: Failure) -> bool:
    """An abort with a reason of its own."""
    data = failure.event.data
    return (data.get("spoken") is True and data.get("cut") is not True) or data.get("heap") is True


def time_of_end(words: Sequence[Failure]) -> tuple[bool, float, bool, bool, str, int]:
    """Time of a rank's end: its cause's own, else that of any word about it. Bare exit codes without one come last."""
    cause = words[0]
    times = [word.at for word in words if word.at is not None and not word.consequence] or [
        word.at for word in words if word.at is not None
    ]
    at = cause.at if cause.at is not None and not cause.consequence else min(times, default=None)
    bare = at is None and is_bare(words)
    return at is None, at or 0.0, cause.event.data.get("root") is not True, bare, cause.event.source, cause.event.line


def is_victim(failure: Failure) -> bool:
    """Whether its words tell of somebody else's end."""
    return text_of(failure.event, "signature") in VICTIM_SIGNATURES


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


_REPORTS = ("elastic.fail", "launcher.exit")


def whose(job: Job, events: Sequence[LogEvent]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Ranks and hosts of words about a failure: their own, else those of the only rank that a report names.

    Ranks that the launcher ended itself are no failures. Of a live job no rank is taken from a report: others may have
    told of what they survived.
    """
    ranks, hosts = ranks_in(events), hosts_in(job, events)
    if ranks or job.live or not events:
        return ranks, hosts
    sources = {event.source for event in events}
    told = [
        failure
        for failure in failures(job)
        if failure.rank is not None
        and failure.event.kind.startswith(_REPORTS)
        and failure.event.source in sources
        and not failure.consequence
        and not is_victim(failure)
    ]
    if len({failure.rank for failure in told}) != 1:
        return ranks, hosts
    own = tuple(failure.rank for failure in told[:1] if failure.rank is not None)
    return own, hosts or tuple(sorted({failure.host for failure in told} - {""}))


SOON = 40
"""Lines behind the word that a run is done, within which what is said follows from it."""
AT_EXIT = "torch.program_exit"
"""torch's warning that process groups were not destroyed; of the first rank of each node's GPUs, from 2.4 on
(ProcessGroupNCCL.cpp). Whoever was killed does not write it; whoever raised does as well."""


def came_to_their_end(job: Job) -> tuple[LogEvent, ...]:
    """Words of ranks that they are done; at exit only of those who tell no failure, where every failure has a rank."""
    ends = [event for event in said(job, "job.finished") if event.rank is not None]
    at_exit = [event for event in said(job, AT_EXIT) if event.rank is not None]
    if at_exit:
        told = failures(job)
        failed = by_rank(told)
        if all(failure.rank is not None or failure.consequence for failure in told):
            ends += [event for event in at_exit if event.rank not in failed]
    return tuple(ends)


def left_at_exit(job: Job) -> dict[int, LogEvent]:
    """The last word at exit of each rank that tells no failure, by rank."""
    return {event.rank: event for event in came_to_their_end(job) if event.kind == AT_EXIT and event.rank is not None}


def follow_from_the_end(job: Job, events: Iterable[LogEvent]) -> bool:
    """Whether words about the store follow from a good end: its server's rank had come to its own before each of them.

    So does what a rank says that was done itself, or behind a launcher's word of the end, where nothing failed. The
    store ends with rank 0's process, or with the agent that waited for it. A log may hold several runs, each with
    its end.
    """
    left = [event for event in came_to_their_end(job) if event.kind == AT_EXIT]
    if all(failure.consequence for failure in failures(job)):
        left += said(job, "job.finished")
    return bool(left) and all(any(_follows(event, end) for end in left) for event in events)


def _follows(event: LogEvent, end: LogEvent) -> bool:
    its_own = end.kind == "job.finished" and end.rank in (None, event.rank)
    if its_own and event.source == end.source and event.line - end.line > SOON:
        return False
    if not its_own and end.rank != event.data.get("from_rank", 0):
        return False
    if event.at is not None and end.at is not None:
        return event.at >= end.at - CLOCKS_S
    return event.source == end.source and event.line > end.line


_TOLD: tuple[tuple[tuple[str, ...], str], ...] = (
    (("No space left on device", "Errno 28]", "ENOSPC"), "The file system that it writes to is full: df -h and df -i."),
    (("Disk quota exceeded", "Errno 122]", "EDQUOT"), "The quota of its user is used up: quota -s, lfs quota."),
    (("Read-only file system", "Errno 30]"), "The file system is read-only, often so since errors: dmesg, mount."),
    (("Stale file handle", "Errno 116]"), "The file server has other files by now: mount it anew on this node."),
    (("Input/output error", "Errno 5]"), "The disk or the file server reports errors: dmesg of its node."),
)
_ARCHIVE = ("inline_container.cc", "basic_ios::clear: iostream error", "PytorchStreamWriter failed writing")
_WRITES = ("unexpected pos", "failed writing", "iostream error")
"""What torch's archive says where it writes: it has the same file for what it reads."""
_NOT_WHOLE = (
    "torch could not write the whole file, most often because the file system is full or over quota: "
    "df -h, df -i, quota -s."
)


def file_advice(what: str) -> str:
    """What to look at where an error tells of a file system; empty for any other error."""
    if any(word in what for word in _ARCHIVE) and any(word in what for word in _WRITES):
        return _NOT_WHOLE
    return next((advice for words, advice in _TOLD if any(word in what for word in words)), "")
