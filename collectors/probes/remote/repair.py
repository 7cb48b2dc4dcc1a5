"""Signals to processes of a node, each identified by its pid and its start time."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Dict, List, NamedTuple, Optional

from collectors.node import watchdog
from collectors.node.processes.procfs import CLOCK_TICKS, boot_time, read_stat
from collectors.node.wire import say

SETTLE, STEP = 0.5, 0.02
"""Seconds within which a signal takes effect; seconds between two checks."""
SAME = 2.0
"""Most seconds between two readings of one process's start time: the clock may be adjusted meanwhile."""


class Signalled(NamedTuple):
    """The result of a signal to one process."""

    pid: int
    outcome: str
    """``terminated``, ``killed``, ``continued``; ``gone``; ``reused`` (another process has its pid: nothing was sent);
    ``denied``, ``survived``."""
    text: str


class SignalTarget(NamedTuple):
    """One process. Its start time is read right before every signal, so that no other process gets the signal."""

    pid: int
    started: float
    """Seconds since the epoch."""

    def state(self) -> str:
        """State letter of /proc/PID/stat; ``gone``; ``reused`` if another process has the pid."""
        stat = read_stat("/proc", self.pid)
        if stat is None or stat.has_ended:
            return "gone"
        started = boot_time() + stat.start_ticks / CLOCK_TICKS
        return stat.state if abs(started - self.started) <= SAME else "reused"

    def send(self, number: signal.Signals) -> Optional[Signalled]:
        """Send a signal; returns an answer only if that failed."""
        now = self.state()
        if now == "reused":
            return Signalled(self.pid, now, "its pid belongs to another process now: nothing was sent")
        try:
            if now != "gone":
                os.kill(self.pid, number)
        except ProcessLookupError:
            now = "gone"
        except OSError as error:
            return Signalled(self.pid, "denied", "%s: %s" % (number.name, os.strerror(error.errno or 0)))
        return Signalled(self.pid, now, "it had ended already") if now == "gone" else None

    def wait(self, states: str, until: float) -> str:
        """Wait while its state is one of these letters (empty: any), at most to ``until``; returns the last state."""
        while True:
            state = self.state()
            if state in ("gone", "reused") or (states and state not in states) or time.monotonic() >= until:
                return state
            time.sleep(STEP)


def end_all(targets: List[SignalTarget], grace: float) -> List[Signalled]:
    """SIGTERM to all processes; SIGKILL to processes that still live after ``grace`` seconds."""
    answers = {target: target.send(signal.SIGTERM) for target in targets}
    until = time.monotonic() + grace
    for target in targets:
        if answers[target] is None:
            if target.wait("", until) in ("gone", "reused"):
                answers[target] = Signalled(target.pid, "terminated", "ended by SIGTERM")
            else:
                answers[target] = target.send(signal.SIGKILL) or _killed(target, grace)
    return [answer for answer in answers.values() if answer is not None]


def _killed(target: SignalTarget, grace: float) -> Signalled:
    state = target.wait("", time.monotonic() + SETTLE)
    if state in ("gone", "reused"):
        return Signalled(target.pid, "killed", "ended by SIGKILL, %g s after SIGTERM" % grace)
    return Signalled(target.pid, "survived", "SIGKILL was sent; the kernel holds it (state %s)" % state)


def continue_all(targets: List[SignalTarget]) -> List[Signalled]:
    """SIGCONT to all processes, with a check that they run again."""
    answers = []
    for target in targets:
        answer = target.send(signal.SIGCONT)
        state = target.wait("T", time.monotonic() + SETTLE)
        if answer is None and state == "T":
            answer = Signalled(target.pid, "survived", "SIGCONT was sent and it is still stopped")
        answers.append(answer or Signalled(target.pid, "continued", "it runs again (state %s)" % state))
    return answers


@watchdog.program
def main(arguments: Dict[str, Any]) -> None:
    """Entry point. ``signal``: ``TERM`` or ``CONT``; ``targets``: [pid, start] pairs; ``grace``: seconds."""
    targets = [SignalTarget(pid, started) for pid, started in arguments["targets"]]
    say(*(continue_all(targets) if arguments["signal"] == "CONT" else end_all(targets, arguments["grace"])))
