"""Words about one rank's end: which of them weighs most, and which only tell of somebody else's."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from hangtop.diagnosis.job import Job
from hangtop.diagnosis.witnesses.event_fields import number_of, text_of
from hangtop.diagnosis.witnesses.failures import VICTIM_SIGNALS, Failure, signal_name
from hangtop.diagnosis.witnesses.messages import said

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
