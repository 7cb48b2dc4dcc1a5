"""Dumps the stacks of processes of this node, all at once, and prints one StackDump a line.

Started like every program on a node (see ``collectors.fleet.payload``); its arguments are the fields of
:class:`DumpRequest`. Where the node has no py-spy it asks for one (see ``collectors.node.stacks.asking``). It says when
a request is answered and waits a few seconds for the next one, a line of JSON: its start costs as much as looks at six
ranks.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections import deque
from typing import Deque, Dict, List, NamedTuple, Optional, Sequence, Set

from collectors.node.child import Child
from collectors.node.processes import process_state
from collectors.node.say import say
from collectors.node.source import Absent
from collectors.node.stacks import asking, pyspy_output
from collectors.node.stacks.look import LookUnderWay, Manner, Sudo
from collectors.samples.stacks import StackDump

_PARENTAL = ("torch/utils/data/dataloader.py", "/multiprocessing/", "/concurrent/futures/", "/subprocess.py")
"""A main thread with one of these among its files may be waiting for a process that it forked."""


class DumpRequest(NamedTuple):
    """What to dump, and how."""

    targets: List[List[int]] = []  # noqa: RUF012 (never written to)
    """``[pid, pid of the rank that it belongs to]``."""
    native: bool = False
    """With native frames: pauses each process for up to 25 ms and costs half a second of CPU for each."""
    blocking: bool = True
    """A read that stays torn may be repeated with the process paused, for under 1 ms."""
    helpers: bool = True
    """Dump the children of a process too when its main thread may be waiting for one."""
    samples: int = 1
    gap: float = 0.5
    """Seconds between samples."""
    deadline: float = 3.0
    """Seconds that one py-spy may take."""
    py_spy: str = ""
    """Path of the py-spy to use; empty: look for one."""
    sudo: bool = False
    """Where this login may not trace, ``sudo -n`` may be tried."""


class _Running(NamedTuple):
    look: LookUnderWay
    child: Child
    until: float
    output: List[bytes]


SAID = 32 << 20
"""Bytes that one py-spy may say: threads, frames and names are the process's to make up."""
LINGER = 8
"""Seconds that it waits for another request."""


class Answered(NamedTuple):
    """All dumps of a request have been printed: so many."""

    dumps: int


def main(arguments: Sequence[object]) -> None:
    """Answer requests; ``arguments`` are the fields of the first :class:`DumpRequest`."""
    hearing = asking.Hearing()
    request = DumpRequest(*arguments)  # type: ignore[arg-type]
    dumper = StackDumper(request, hearing)
    while True:
        say(Answered(dumper.run(request)))
        line = hearing.line(LINGER)
        if line is None:
            return
        request = DumpRequest(*json.loads(line))


class StackDumper:
    """Answers requests of one client about one job."""

    def __init__(self, request: DumpRequest, hearing: asking.Hearing) -> None:
        self._hearing = hearing
        self._request = request
        self._manner = Manner(request.native, request.blocking)
        self._said = 0
        self._sudo = Sudo()
        self._spy = asking.find_or_borrow(hearing, [rank_pid for _, rank_pid in request.targets], request.py_spy)
        self._asked = False
        self._at_once = max(2, min(16, os.cpu_count() or 2))

    def run(self, request: DumpRequest) -> int:
        """Take every sample of a request; the number of dumps that were printed."""
        self._request = request
        self._manner = Manner(request.native, request.blocking)
        self._sudo.allowed = request.sudo
        self._said = 0
        begun = time.monotonic()
        for number in range(self._request.samples):
            pause = begun + number * self._request.gap - time.monotonic()
            if pause > 0:
                time.sleep(pause)
            self._sample()
        return self._said

    def _sample(self) -> None:
        targets = [(pid, rank_pid) for pid, rank_pid in self._request.targets]
        unsupported = self._dump(targets)
        if unsupported and self._spy is not None and not self._spy.lent and not self._asked:
            self._asked = True
            why = "the py-spy here, %s, is older than the job's Python" % self._spy.name
            self._spy = asking.borrow(self._hearing, why)
        if unsupported:
            self._dump(unsupported, last=True)

    def _look(self, pid: int, rank_pid: int) -> LookUnderWay:
        return LookUnderWay(pid, rank_pid, self._manner, self._spy, self._sudo)

    def _dump(self, targets: "List[tuple[int, int]]", last: bool = False) -> "List[tuple[int, int]]":
        """Dump these processes, print what comes; return those whose Python this py-spy does not know."""
        waiting: Deque[LookUnderWay] = deque(self._look(*target) for target in targets)
        known = {pid for pid, _ in targets}
        running: Dict[int, _Running] = {}
        unsupported = []
        while waiting or running:
            while waiting and len(running) < self._at_once:
                look = waiting.popleft()
                started = None if look.finished else self._start(look)
                if started is not None:
                    running[started.child.output] = started
                elif self._finish(look, known, waiting, last):
                    unsupported.append((look.pid, look.rank_pid))
            for look in _advance(running) if running else ():
                if not look.finished:
                    waiting.appendleft(look)
                elif self._finish(look, known, waiting, last):
                    unsupported.append((look.pid, look.rank_pid))
        return unsupported

    def _start(self, look: LookUnderWay) -> Optional[_Running]:
        try:
            child = Child(look.command())
        except Absent as reason:
            while not look.finished:
                look.take(1, b"", str(reason).encode())
            return None
        return _Running(look, child, time.monotonic() + self._request.deadline, [])

    def _finish(self, look: LookUnderWay, known: Set[int], waiting: Deque[LookUnderWay], last: bool) -> bool:
        """Print a finished look, queue the children that it waits for; True when another py-spy must try."""
        result = look.result()
        if result.error.startswith("unsupported"):
            if not last:
                return True
            result = result._replace(error=result.error.replace("unsupported", "no-py-spy", 1))
        say(result)
        self._said += 1
        if self._request.helpers and look.pid == look.rank_pid and _may_wait_for_children(result):
            for pid in process_state.children(look.pid):
                if pid not in known:
                    known.add(pid)
                    waiting.append(self._look(pid, look.rank_pid))
        return False


def _advance(running: Dict[int, _Running]) -> List[LookUnderWay]:
    """Wait for output, an end or a deadline; return the looks whose attempt is over."""
    soonest = min(entry.until for entry in running.values())
    ready, _, _ = select.select(list(running), [], [], max(0.0, soonest - time.monotonic()))
    over = []
    now = time.monotonic()
    for descriptor, (look, child, until, output) in list(running.items()):
        part = child.read() if descriptor in ready else b""
        output.append(part)
        too_much = sum(map(len, output)) > SAID
        if now < until and not too_much and (part or descriptor not in ready):
            continue
        if too_much:
            look.take(1, b"", b"py-spy says more than %d MB of it" % (SAID >> 20))
        else:
            status = child.ended(1.0) if descriptor in ready and not part else None
            look.take(status, b"".join(output), child.read_errors())
        child.end()
        del running[descriptor]
        over.append(look)
    return over


def _may_wait_for_children(dump: StackDump) -> bool:
    main = pyspy_output.main_thread(dump.threads, dump.pid)
    return main is not None and any(part in frame.file for frame in main.frames for part in _PARENTAL)
