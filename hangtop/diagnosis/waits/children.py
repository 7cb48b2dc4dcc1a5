"""The processes that a rank started and waits for: those that are stopped, have ended, or which one it is."""

from __future__ import annotations

from collections.abc import Sequence
from signal import Signals

from collectors.samples.ranks import Helper
from hangtop.diagnosis.phrasing import count, listed
from hangtop.diagnosis.tables.thresholds import HELPERS_KNOWN_S
from hangtop.diagnosis.waits.rank_status import RankStatus

STOPPED, ENDED, KEPT = ("T", "t"), ("Z", "X"), ("D",)
"""Letters of the kernel: halted, ended and not yet reaped, in a call that nothing interrupts."""
NAMED = 3
WORDS = 60
"""Characters of a command that are told."""


def children_told(status: RankStatus) -> str:
    """What of the processes that this rank waits for explains its wait; empty where it waits for none of them.

    Those that are halted or ended come first: which of several it waits for is not known, but none of these answers.
    """
    doing, process = status.activity, status.process
    if doing is None or process is None or doing.waits != "helper":
        return ""
    children = process.helpers
    if not children:
        looks = process.looks
        known = len(looks) > 1 and looks[-1].at - looks[0].at >= HELPERS_KNOWN_S
        none = known and doing.helper_pid is None
        return "no process that it started is left" if none else ""
    for states, words in ((STOPPED, "stopped"), (ENDED, "dead"), (KEPT, "uninterruptible in the kernel")):
        found = [child for child in children if child.state in states]
        if found:
            how = f" ({how})" if (how := _how_ended(found)) else ""
            of = count(len(children), "process", "processes")
            return f"of the {of} that it started {_named(found)} {words}{how}"
    return f"it waits for {_told(children[0])}" if len(children) == 1 else ""


def _named(children: Sequence[Helper]) -> str:
    verb = "is" if len(children) == 1 else "are"
    return f"{listed([str(child.pid) for child in children], NAMED)} {verb}"


def _how_ended(children: Sequence[Helper]) -> str:
    """``SIGKILL`` or ``exit code 1``, where the kernel tells it and it is the same of all."""
    how = {None if child.ended is None else _waited_for(child.ended) for child in children}
    return (how.pop() or "") if len(how) == 1 else ""


def _waited_for(status: int) -> str:
    """What a wait status says: a signal by its name, or the exit code."""
    number = status & 0x7F
    if not number:
        return f"exit code {status >> 8}"
    return Signals(number).name if number in set(Signals) else f"signal {number}"


def _told(child: Helper) -> str:
    command = child.command if len(child.command) <= WORDS else f"{child.command[: WORDS - 1]}…"
    return f"process {child.pid} ({command})" if command else f"process {child.pid}"
