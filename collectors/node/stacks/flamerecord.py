"""Samples the stacks of processes of this node for some seconds, with py-spy record, without pausing them.

Its arguments are the fields of :class:`FlameRequest`. It prints a :class:`FlameRecording` for each process. py-spy
writes into memory of this process: nothing is on a disk, and all of it ends with this program, however that ends.
"""

from __future__ import annotations

import os
import resource
import time
import zlib
from base64 import b64encode
from typing import List, NamedTuple, Sequence

from collectors.node.child import Child
from collectors.node.processes import process_state
from collectors.node.source import Absent
from collectors.node.stacks import look, pyspy, pyspy_output
from collectors.node.wire import say

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


class FlameRecording(NamedTuple):
    """What one process gave: folded stacks of py-spy's ``raw`` format, compressed and in base 64, or an error."""

    pid: int
    stacks: str
    error: str
    """``word: what was said``, as in :class:`collectors.samples.stacks.StackDump`."""


def main(arguments: Sequence[object]) -> None:
    """Answer one request."""
    request = FlameRequest(*arguments)  # type: ignore[arg-type]
    spy = pyspy.find_or_borrow(pyspy.InputLines(), request.py_spy)
    running: List[_Recording] = []
    for pid in request.pids:
        seen = process_state.of(pid)
        if seen is None or seen.state in "ZXx":
            say(FlameRecording(pid, "", "gone: no such process"))
        elif spy is None:
            say(FlameRecording(pid, "", "no-py-spy: no py-spy on this node, and none to lend to it"))
        else:
            try:
                running.append(_Recording(pid, spy, request))
            except Absent as reason:
                say(FlameRecording(pid, "", "failed: %s" % reason))
    until = time.monotonic() + request.seconds + _GRACE
    while running and time.monotonic() < until:
        time.sleep(_STEP)
        for one in running:
            one.child.read()  # py-spy's own progress: nobody reads it, but a full pipe would block it
        for one in [one for one in running if one.child.status is not None]:
            running.remove(one)
            say(one.finish())
    for one in running:
        say(one.finish())


class _Recording:
    """One process that is recorded. Raises :class:`Absent` where py-spy cannot be started."""

    def __init__(self, pid: int, spy: str, request: FlameRequest) -> None:
        self._pid = pid
        self._memory = os.memfd_create("stacks")
        target = "/proc/%d/fd/%d" % (os.getpid(), self._memory)
        words = pyspy.record_command(spy, pid, request.seconds, request.rate, target)
        try:
            self.child = Child(words, become=_limit_files)
        except Absent:
            os.close(self._memory)
            raise

    def finish(self) -> FlameRecording:
        """End it, and tell what came of it."""
        status, said = self.child.status, self.child.read_errors()
        self.child.end()
        size = os.fstat(self._memory).st_size
        stacks = os.pread(self._memory, min(size, LIMIT), 0)
        os.close(self._memory)
        error = ""
        if size >= LIMIT:
            stacks = stacks[: stacks.rfind(b"\n") + 1]  # the last one may be cut
            error = "cut: only the first %d MB of its stacks" % (LIMIT >> 20)
        elif not stacks:
            error = "%s: %s" % pyspy_output.failure(said) if status else "timeout: py-spy wrote nothing"
            error += "; " + look.way_out(self._pid) if error.startswith("denied") else ""
        return FlameRecording(self._pid, b64encode(zlib.compress(stacks, 6)).decode(), error)


def _limit_files() -> None:
    """In a program that starts: no file of its own grows beyond :data:`LIMIT`, our memory neither."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    most = LIMIT if hard == resource.RLIM_INFINITY else min(LIMIT, hard)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
