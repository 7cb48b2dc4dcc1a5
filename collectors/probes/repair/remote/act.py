"""Sends a signal to processes of one node, after a check of their start time.

With a pidfd (Linux 5.3, Python 3.9) the check holds for ever: the descriptor is opened first, then the start time read;
if it is the right one, the descriptor is that process's, whatever becomes of the number. Without one the start time is
read again right before every signal.
"""

from __future__ import annotations

import os
import select
import signal
import time
from typing import Dict, List, Optional, Tuple

from collectors.node import watchdog
from collectors.node.processes.procfs import read_stat
from collectors.node.say import say_all
from collectors.probes.repair.remote.words import Signalled

SETTLE = 0.5
"""Seconds within which a process that was continued no longer shows as stopped, and a killed one is gone."""
STEP = 0.02
END = Signalled(0, "end", "")
_SEND = getattr(signal, "pidfd_send_signal", None)
"""Python 3.9 and newer."""


class SignalTarget:
    """One process, known by pid and start time."""

    def __init__(self, pid: int, start_ticks: int, proc: str = "/proc") -> None:
        self.pid = pid
        self._start_ticks = start_ticks
        self._proc = proc
        self._descriptor: Optional[int] = None
        opened = getattr(os, "pidfd_open", None)
        if opened is not None and _SEND is not None:
            try:
                self._descriptor = opened(pid)
            except OSError:  # gone, or a kernel without it: the start time decides
                self._descriptor = None

    def state(self) -> str:
        """Letter of /proc/PID/stat; ``gone``, or ``reused`` when the pid is another process's now."""
        stat = read_stat(self._proc, self.pid)
        if stat is None or stat.state in ("Z", "X"):
            return "gone"
        return stat.state if stat.start_ticks == self._start_ticks else "reused"

    def send(self, number: signal.Signals) -> Tuple[str, str]:
        """Signal it; (outcome, text) of a failure, else two empty texts."""
        now = self.state()
        if now in ("gone", "reused"):
            return now, _NOTHING_SENT[now]
        try:
            if self._descriptor is not None and _SEND is not None:
                _SEND(self._descriptor, number)
            else:
                os.kill(self.pid, number)
        except ProcessLookupError:
            return "gone", _NOTHING_SENT["gone"]
        except OSError as error:
            return "denied", "%s: %s" % (number.name, os.strerror(error.errno or 0))
        return "", ""

    def ended(self, seconds: float) -> bool:
        """Wait for its end, at most so long."""
        until = time.monotonic() + seconds
        if self._descriptor is not None:
            return bool(select.select([self._descriptor], [], [], max(0.0, seconds))[0])
        while self.state() not in ("gone", "reused"):
            if time.monotonic() >= until:
                return False
            time.sleep(STEP)
        return True

    def close(self) -> None:
        """Forget it."""
        if self._descriptor is not None:
            os.close(self._descriptor)


_NOTHING_SENT = {
    "gone": "it had ended already",
    "reused": "its pid belongs to another process now: nothing was sent",
}


def end_all(targets: List[SignalTarget], grace: float) -> List[Signalled]:
    """SIGTERM to all; what is there after ``grace`` seconds gets SIGKILL."""
    said: Dict[int, Signalled] = {}
    asked: List[SignalTarget] = []
    for target in targets:
        outcome, why = target.send(signal.SIGTERM)
        if outcome:
            said[target.pid] = Signalled(target.pid, outcome, why)
        else:
            asked.append(target)
    until = time.monotonic() + grace
    left = []
    for target in asked:
        if target.ended(until - time.monotonic()):
            said[target.pid] = Signalled(target.pid, "terminated", "ended by SIGTERM")
        else:
            left.append((target, target.send(signal.SIGKILL)))
    for target, (outcome, why) in left:
        if outcome == "denied":
            said[target.pid] = Signalled(target.pid, outcome, why)
        elif target.ended(SETTLE):
            said[target.pid] = Signalled(target.pid, "killed", "ended by SIGKILL, %g s after SIGTERM" % grace)
        else:
            held = "SIGKILL was sent; the kernel holds it (state %s)" % target.state()
            said[target.pid] = Signalled(target.pid, "survived", held)
    return [said[target.pid] for target in targets]


def continue_all(targets: List[SignalTarget]) -> List[Signalled]:
    """SIGCONT to all, and whether they go on."""
    said: List[Signalled] = []
    for target in targets:
        outcome, why = target.send(signal.SIGCONT)
        if outcome:
            said.append(Signalled(target.pid, outcome, why))
            continue
        until = time.monotonic() + SETTLE
        while target.state() == "T" and time.monotonic() < until:
            time.sleep(STEP)
        state = target.state()
        outcome = "survived" if state == "T" else "continued"
        text = "SIGCONT was sent and it is still stopped" if state == "T" else "it goes on (state %s)" % state
        said.append(Signalled(target.pid, outcome, text))
    return said


@watchdog.program
def main(arguments: Dict[str, object]) -> None:
    """Entry. ``signal``: ``TERM`` or ``CONT``; ``targets``: [pid, start ticks] pairs; ``grace``: seconds."""
    grace = float(str(arguments.get("grace", 5.0)))
    rows = arguments.get("targets")
    pairs = [row for row in (rows if isinstance(rows, list) else []) if isinstance(row, list) and len(row) == 2]
    targets = [SignalTarget(int(str(pid)), int(str(ticks))) for pid, ticks in pairs]
    said = continue_all(targets) if arguments.get("signal") == "CONT" else end_all(targets, grace)
    for target in targets:
        target.close()
    say_all([*said, END])
