"""The processes that a rank started and waits for: those that are stopped, have ended, or which one it is."""

from __future__ import annotations

from collections.abc import Sequence
from signal import Signals
from textwrap import shorten

from collectors.samples.ranks import Helper
from hangtop.diagnosis.phrasing import count, listed
from hangtop.diagnosis.tables.thresholds import HELPERS_KNOWN_S
from hangtop.diagnosis.waits.rank_status import RankStatus

STOPPED, ENDED, KEPT = ("T", "t"), ("Z", "X"), ("D",)
"""Letters of the kernel: halted, ended and not yet reaped, in a call that nothing interrupts."""
NAMED = 3
WORDS = 60
"""Characters of a command that are told."""


def children_of(status: RankStatus) -> Sequence[Helper]:
    """The processes that a rank started and that are there."""
    return status.process.helpers if status.process is not None else ()


def awaited(status: RankStatus) -> Sequence[Helper]:
    """The child that a rank waits for, where that is known; else all of them."""
    children = children_of(status)
    pid = status.activity.helper_pid if status.activity is not None else None
    return [child for child in children if child.pid == pid] or children


def known_to_all(status: RankStatus) -> bool:
    """Whether a rank was watched for long enough to know its children: a node looks at new ones every few seconds."""
    looks = status.process.looks if status.process is not None else ()
    return len(looks) < 2 or looks[-1].at - looks[0].at >= HELPERS_KNOWN_S


def children_told(status: RankStatus) -> str:
    """What of the processes that this rank waits for explains its wait; empty where it waits for none of them.

    Those that are halted or ended come first: which of several it waits for is not known, but none of these answers.
    """
    doing = status.activity
    if doing is None or status.process is None or doing.waits != "helper":
        return ""
    children = children_of(status)
    if not children:
        none = len(status.process.looks) > 1 and known_to_all(status) and doing.helper_pid is None
        return "no process that it started is left" if none else ""
    for states, words in ((STOPPED, "stopped"), (ENDED, "dead"), (KEPT, "uninterruptible in the kernel")):
        found = [child for child in children if child.state in states]
        if found:
            verb = "is" if len(found) == 1 else "are"
            how = {None if child.ended is None else _ended_by(child.ended) for child in found}
            by = f" ({told})" if len(how) == 1 and (told := how.pop()) else ""
            of = count(len(children), "process", "processes")
            return f"of the {of} that it started {listed([str(c.pid) for c in found], NAMED)} {verb} {words}{by}"
    return f"it waits for {_told(children[0])}" if len(children) == 1 else ""


def _ended_by(status: int) -> str:
    """``SIGKILL`` or ``exit code 1``: what a wait status says."""
    number = status & 0x7F
    if not number:
        return f"exit code {status >> 8}"
    return Signals(number).name if number in set(Signals) else f"signal {number}"


def _told(child: Helper) -> str:
    command = shorten(child.command, WORDS, placeholder="…")
    return f"process {child.pid} ({command})" if command else f"process {child.pid}"
