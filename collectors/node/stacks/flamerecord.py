"""Samples the stacks of processes of this node for some seconds, with py-spy record, without pausing them.

Its arguments are the fields of :class:`FlameRequest`. It prints a :class:`FlameProgress` twice a second and a
:class:`FlameRecording` for each process; anything but heartbeats on its standard input makes it stop early and print
what there is. py-spy writes into memory of this process: nothing is on a disk, and all of it ends with this program,
however that ends.
"""

from __future__ import annotations

import os
import resource
import signal
import time
import zlib
from base64 import b64encode
from typing import Dict, List, NamedTuple, Optional, Sequence

from collectors.node.child import Child
from collectors.node.processes import process_state
from collectors.node.say import say
from collectors.node.source import Absent
from collectors.node.stacks import asking, look, pyspy, pyspy_output

_STEP = 0.5
_GRACE = 10
"""Seconds that py-spy may take to begin and to write its result."""

LIMIT = 16 << 20
"""Bytes of one process's folded stacks that py-spy may write into our memory, and that are sent."""


class FlameRequest(NamedTuple):
    """What to record, and how."""

    pids: List[int]
    seconds: float
    rate: int = 50
    """Samples a second."""
    py_spy: str = ""


class FlameProgress(NamedTuple):
    """How far it is."""

    elapsed: float
    running: int
    """Processes that are being recorded."""


class FlameRecording(NamedTuple):
    """What one process gave: folded stacks of py-spy's ``raw`` format, compressed and in base 64, or an error."""

    pid: int
    seconds: float
    """How long it was recorded."""
    stacks: str
    error: str
    """``word: what was said``, as in :class:`collectors.samples.stacks.StackDump`."""


def main(arguments: Sequence[object]) -> None:
    """Answer one request."""
    request = FlameRequest(*arguments)  # type: ignore[arg-type]
    hearing = asking.Hearing()
    spy = asking.find_or_borrow(hearing, request.pids, request.py_spy)
    _Recorder(request, spy, hearing).run()


class _Recorder:
    """Records all processes at once."""

    def __init__(self, request: FlameRequest, spy: Optional[pyspy.PySpy], hearing: asking.Hearing) -> None:
        self._hearing = hearing
        self._request = request
        self._spy = spy
        self._begun = time.monotonic()
        self._running: Dict[int, Child] = {}
        self._memory: Dict[int, int] = {}

    def run(self) -> None:
        """Record, and print what came of it."""
        for pid in self._request.pids:
            why = self._start(pid)
            if why:
                say(FlameRecording(pid, 0.0, "", why))
        stopped = False
        until = self._begun + self._request.seconds + _GRACE
        while self._running and time.monotonic() < until:
            say(FlameProgress(round(time.monotonic() - self._begun, 1), len(self._running)))
            if self._hears_stop() and not stopped:
                stopped = True
                until = time.monotonic() + _GRACE
                for child in self._running.values():
                    os.kill(child.pid, signal.SIGINT)  # py-spy then writes what it has
            for pid in [pid for pid, child in self._running.items() if child.status is not None]:
                self._finish(pid)
        for pid in list(self._running):
            self._finish(pid)

    def _hears_stop(self) -> bool:
        heard = self._hearing.line(_STEP) is not None
        for child in self._running.values():
            child.read()  # py-spy's own progress: nobody reads it, but a full pipe would block it
        return heard

    def _start(self, pid: int) -> str:
        """Begin with one process; why not when that is impossible."""
        seen = process_state.of(pid)
        if seen is None or seen.state in "ZXx":
            return "gone: no such process"
        if self._spy is None:
            return "no-py-spy: no py-spy on this node, and none to lend to it"
        memory = os.memfd_create("stacks")
        target = "/proc/%d/fd/%d" % (os.getpid(), memory)
        words = pyspy.record_command(self._spy.path, pid, self._request.seconds, self._request.rate, target)
        try:
            self._running[pid] = Child(words, become=_limit_files)
        except Absent as reason:
            os.close(memory)
            return "failed: %s" % reason
        self._memory[pid] = memory
        return ""

    def _finish(self, pid: int) -> None:
        child, memory = self._running.pop(pid), self._memory.pop(pid)
        status, said = child.status, child.read_errors()
        child.end()
        size = os.fstat(memory).st_size
        stacks = os.pread(memory, min(size, LIMIT), 0)
        os.close(memory)
        error = ""
        if size >= LIMIT:
            stacks = stacks[: stacks.rfind(b"\n") + 1]  # the last one may be cut
            error = "cut: only the first %d MB of its stacks" % (LIMIT >> 20)
        if not stacks and not error:
            error = "%s: %s" % pyspy_output.failure(said) if status else "timeout: py-spy wrote nothing"
            if error.startswith("denied"):
                error += "; " + look.way_out(pid)
        took = min(time.monotonic() - self._begun, self._request.seconds)
        say(FlameRecording(pid, took, b64encode(zlib.compress(stacks, 6)).decode(), error))


def _limit_files() -> None:
    """In a program that starts: no file of its own grows beyond :data:`LIMIT`, our memory neither."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    most = LIMIT if hard == resource.RLIM_INFINITY else min(LIMIT, hard)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
