"""The processes that a rank started and waits for: those that are stopped, have ended, or which one it is."""

from __future__ import annotations

from collections.abc import Sequence
from signal import Signals

from collectors.samples.ranks import Helper
from hangtop.diagnosis.job import Rank
from hangtop.diagnosis.phrasing import count, listed
from hangtop.diagnosis.tables.thresholds import HELPERS_KNOWN_S, LONG_WORK_S
from hangtop.diagnosis.waits.rank_status import RankStatus
from hangtop.diagnosis.waits.readings import Readings
from hangtop.diagnosis.waits.sleeping import sleeps_for_good

STOPPED, ENDED, KEPT = ("T", "t"), ("Z", "X"), ("D",)
"""Letters of the kernel: halted, ended and not yet reaped, in a call that nothing interrupts."""
ONE = "process "
"""How what a call waits on begins where that is the end of one process, which lives then."""
PROGRAM = "helper"
"""Role of a process that is no worker of a loader or a compiler: those are replaced for other reasons."""
LIMIT_SLACK_S = 3.0
"""Ours: so long it may take to end a program whose time is over."""
ENDED_LATELY_S, ENDED_MEANWHILE_S = 15.0, 3.0
"""Seconds since one of the programs that a rank runs ended, for which it may run further ones, and that this must have
been after the others came: of several that it began at once the first to end say nothing of the last."""
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
        none = helpers_known(process) and doing.helper_pid is None
        return "no process that it started is left" if none else ""
    for states, words in ((STOPPED, "stopped"), (ENDED, "dead"), (KEPT, "uninterruptible in the kernel")):
        found = [child for child in children if child.state in states]
        if found:
            how = f" ({how})" if (how := _how_ended(found)) else ""
            of = count(len(children), "process", "processes")
            return f"of the {of} that it started {_named(found)} {words}{how}"
    return f"it waits for {_told(children[0])}" if len(children) == 1 else ""


def helpers_known(process: Rank) -> bool | None:
    """Whether it was watched for long enough to know what its processes do; None where one look tells no time."""
    looks = process.looks
    return looks[-1].at - looks[0].at >= HELPERS_KNOWN_S if len(looks) > 1 else None


def helpers_unknown(status: RankStatus) -> bool:
    """It waits for processes that it started, and was watched too shortly to tell whether those work.

    So does whoever compiles and sleeps, whatever in: its compilers are processes, or threads that wait for some.
    """
    doing, process = status.activity, status.process
    if doing is None or process is None or status.state != "working":
        return False
    compiles = "compile" in {doing.kind, *doing.context} and not status.busy
    return (doing.waits == "helper" or compiles) and helpers_known(process) is False


def children_work(status: RankStatus) -> bool:
    """Whether it waits for processes that it started, or for what comes through a pipe, and these compute or copy."""
    doing, moved = status.activity, status.motion
    if doing is None or not (doing.waits == "helper" or doing.waiting_on.startswith("pipe")):
        return False
    looks = status.readings
    return moved.helped or moved.helpers_move_data or (isinstance(looks, Readings) and looks.helpers_ready)


def child_due(status: RankStatus, waited: float) -> float:
    """Seconds that the others, who have ``waited`` so long, may wait for a rank that waits for programs that it runs.

    Until the time is over that it gives the present one, and a minute at the most, or where it was seen to start one
    after another: it runs them and goes on; or where one is ready to run. 0 for any other rank.
    """
    doing = status.activity
    if doing is None or doing.waits != "helper" or status.state != "working":
        return 0.0
    if one_after_another(status) or ended_meanwhile(status, waited) or child_ready(status):
        return LONG_WORK_S
    left = 0.0 if doing.within is None else doing.within + LIMIT_SLACK_S - status.motion.unrun
    return min(waited + left, LONG_WORK_S) if left > 0.0 else 0.0


def child_ready(status: RankStatus) -> bool:
    """Whether a process that it waits for was ready to run at the last look: a full node may give it no CPU."""
    doing = status.activity
    return doing is not None and doing.waits == "helper" and status.motion.helper_runs


def polls_for_children(status: RankStatus) -> bool:
    """Whether it looks after short sleeps if something has come, while a process of its own is at work.

    Most likely it waits for that, as joblib does.
    """
    doing, moved = status.activity, status.motion
    if doing is None or doing.waits != "time" or status.state != "working" or sleeps_for_good(status):
        return False
    return moved.helped or moved.helper_runs


def one_after_another(status: RankStatus) -> bool:
    """Whether the process that it waited for at an earlier look is gone, and another one was started."""
    looks = status.readings
    if len({look.waiting_on for look in looks if look.waits == "helper" and look.waiting_on.startswith(ONE)}) > 1:
        return True  # the kernel said so at each look, whatever is known of them by now
    if status.process is None or not status.process.helpers or not isinstance(looks, Readings):
        return False
    known = {child.pid for child in status.process.helpers}
    runs = all(child.role == PROGRAM and child.state not in ENDED for child in status.process.helpers)
    return runs and any(pid not in known for pid in looks.helpers)


def ended_meanwhile(status: RankStatus, waited: float) -> bool:
    """Whether a program that it had started ended of late, while the others waited for it, ``waited`` seconds by now.

    A shell that runs one command after another sleeps between them, and no look may meet two of these.
    """
    process = status.process
    if process is None or process.program_ended_at is None or not process.looks or not process.helpers:
        return False
    now, ended = process.looks[-1].at, process.program_ended_at
    return now - ended <= ENDED_LATELY_S and ended - (now - waited) >= ENDED_MEANWHILE_S


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
