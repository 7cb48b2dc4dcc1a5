"""Dumps the stacks of processes of this node, all at once, and prints one StackDump a line.

Started like every program on a node (see ``collectors.fleet.payload``); its arguments are the fields of
:class:`Request`. Where the node has no py-spy it asks for one (see ``collectors.node.asking``). It says when a request
is answered and waits a few seconds for the next one, a line of JSON: its start costs as much as looks at six ranks.
"""

from __future__ import annotations

import json
import math
import os
import select
import time
from collections import deque
from typing import Deque, Dict, List, NamedTuple, Optional, Sequence, Set

from collectors.node import asking, lifeline, pyspy_output, standing
from collectors.node.child import Child
from collectors.node.look import Look, Manner, Sudo
from collectors.node.source import Absent
from collectors.samples.stacks import StackDump

_PARENTAL = ("torch/utils/data/dataloader.py", "/multiprocessing/", "/concurrent/futures/", "/subprocess.py")
"""A main thread with one of these among its files may be waiting for a process that it forked."""


class Request(NamedTuple):
    """What to dump, and how."""

    targets: List[List[int]]
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


class _Running(NamedTuple):
    look: Look
    child: Child
    until: float
    output: List[bytes]


LINGER = 8
"""Seconds that it waits for another request."""


class Answered(NamedTuple):
    """All dumps of a request have been printed: so many."""

    dumps: int


def main(arguments: Sequence[object]) -> None:
    """Answer requests; ``arguments`` are the fields of the first :class:`Request`."""
    lifeline.prepare(asking.FETCH_SECONDS)
    request = Request(*arguments)  # type: ignore[arg-type]
    dumper = Dumper(request)
    while True:
        asking.say(Answered(dumper.run(request)))
        lifeline.arm(LINGER + 2)
        if not select.select([0], [], [], LINGER)[0]:
            return
        request = Request(*json.loads(asking.line()))


class Dumper:
    """Answers requests of one client about one job."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._manner = Manner(request.native, request.blocking)
        self._said = 0
        self._sudo = Sudo()
        self._spy = asking.find_or_borrow([rank_pid for _, rank_pid in request.targets], request.py_spy)
        self._asked = False
        self._at_once = max(2, min(16, os.cpu_count() or 2))

    def run(self, request: Request) -> int:
        """Take every sample of a request; the number of dumps that were printed."""
        self._request = request
        self._manner = Manner(request.native, request.blocking)
        self._said = 0
        begun = time.monotonic()
        for number in range(self._request.samples):
            pause = begun + number * self._request.gap - time.monotonic()
            lifeline.arm(math.ceil(max(pause, 0.0) + self._request.deadline * (4 + len(self._request.targets))) + 5)
            _wait(pause)
            self._sample()
        return self._said

    def _sample(self) -> None:
        targets = [(pid, rank_pid) for pid, rank_pid in self._request.targets]
        unsupported = self._dump(targets)
        if unsupported and self._spy is not None and not self._spy.lent and not self._asked:
            self._asked = True
            self._spy = asking.borrow("the py-spy here, %s, is older than the job's Python" % self._spy.path)
        if unsupported:
            self._dump(unsupported, last=True)

    def _look(self, pid: int, rank_pid: int) -> Look:
        return Look(pid, rank_pid, self._manner, self._spy, self._sudo)

    def _dump(self, targets: "List[tuple[int, int]]", last: bool = False) -> "List[tuple[int, int]]":
        """Dump these processes, print what comes; return those whose Python this py-spy does not know."""
        waiting: Deque[Look] = deque(self._look(*target) for target in targets)
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

    def _start(self, look: Look) -> Optional[_Running]:
        try:
            child = Child(look.command(), limit=64 << 20)
        except Absent as reason:
            while not look.finished:
                look.take(1, b"", str(reason).encode())
            return None
        return _Running(look, child, time.monotonic() + self._request.deadline, [])

    def _finish(self, look: Look, known: Set[int], waiting: Deque[Look], last: bool) -> bool:
        """Print a finished look, queue the children that it waits for; True when another py-spy must try."""
        result = look.result()
        if result.error.startswith("unsupported"):
            if not last:
                return True
            result = result._replace(error=result.error.replace("unsupported", "no-py-spy", 1))
        asking.say(result)
        self._said += 1
        if self._request.helpers and look.pid == look.rank_pid and _may_wait_for_children(result):
            for pid in standing.children(look.pid):
                if pid not in known:
                    known.add(pid)
                    waiting.append(self._look(pid, look.rank_pid))
        return False


def _advance(running: Dict[int, _Running]) -> List[Look]:
    """Wait for output, an end or a deadline; return the looks whose attempt is over."""
    soonest = min(entry.until for entry in running.values())
    ready, _, _ = select.select([0, *running], [], [], max(0.0, soonest - time.monotonic()))
    if 0 in ready:
        asking.heard()
    over = []
    now = time.monotonic()
    for descriptor, (look, child, until, output) in list(running.items()):
        part = child.read() if descriptor in ready else b""
        output.append(part)
        if part or (descriptor not in ready and now < until):
            continue
        status = child.ended(1.0) if descriptor in ready else None
        look.take(status, b"".join(output), child.read_errors())
        child.end()
        del running[descriptor]
        over.append(look)
    return over


def _may_wait_for_children(dump: StackDump) -> bool:
    main = pyspy_output.main_thread(dump.threads, dump.pid)
    return main is not None and any(part in frame.file for frame in main.frames for part in _PARENTAL)


def _wait(seconds: float) -> None:
    if seconds > 0 and select.select([0], [], [], seconds)[0]:
        asking.heard()
        time.sleep(seconds)
