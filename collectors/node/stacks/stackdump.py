"""Dumps the stacks of processes of this node, several at once, and prints one StackDump a line.

Started like every program on a node (see ``collectors.fleet.payload``); its arguments are the fields of
:class:`DumpRequest`. Where the node has no py-spy it asks for one. It says when a request is answered
and waits a few seconds for the next one, a line of JSON: its start costs as much as looks at six ranks.
"""

from __future__ import annotations

import json
import os
import threading
import time
from queue import SimpleQueue
from typing import List, NamedTuple, Optional, Sequence, Tuple, Union

from collectors.node.processes import process_state
from collectors.node.stacks import pyspy, pyspy_output
from collectors.node.stacks.look import Manner, look
from collectors.node.wire import say
from collectors.samples.stacks import StackDump

_PARENTAL = ("torch/utils/data/dataloader.py", "/multiprocessing/", "/concurrent/futures/", "/subprocess.py")
"""A main thread with one of these among its files may be waiting for a process that it forked."""
LINGER = 8
"""Seconds that it waits for another request."""
GAP = 0.5
"""Seconds between samples."""

Target = Tuple[int, int]
"""A process, and the rank that it belongs to."""


class DumpRequest(NamedTuple):
    """What to dump, and how."""

    pids: List[int] = []  # noqa: RUF012 (never written to)
    native: bool = False
    """With native frames: pauses each process for up to 25 ms and costs half a second of CPU for each."""
    blocking: bool = True
    """A read that stays torn may be repeated with the process paused, for under 1 ms."""
    samples: int = 1
    deadline: float = 3.0
    """Seconds that one py-spy may take."""
    py_spy: str = ""
    """Path of the py-spy to use; empty: look for one."""
    sudo: bool = False
    """Where this login may not trace, ``sudo -n`` may be tried."""


class Answered(NamedTuple):
    """All dumps of a request have been printed."""


def main(arguments: Sequence[object]) -> None:
    """Answer requests; ``arguments`` are the fields of the first :class:`DumpRequest`."""
    lines = pyspy.InputLines()
    request = DumpRequest(*arguments)  # type: ignore[arg-type]
    dumper = StackDumper(pyspy.find_or_borrow(lines, request.py_spy))
    while True:
        dumper.run(request)
        say(Answered())
        line = lines.next(LINGER)
        if line is None:
            return
        request = DumpRequest(*json.loads(line))


class StackDumper:
    """Answers requests of one client about one job."""

    def __init__(self, spy: Optional[str]) -> None:
        self._refusals: List[str] = []
        self._spy = spy
        self._wanted: "SimpleQueue[Tuple[Target, Manner]]" = SimpleQueue()
        self._done: "SimpleQueue[Union[StackDump, Exception]]" = SimpleQueue()
        self._workers = 0

    def run(self, request: DumpRequest) -> None:
        """Take every sample of a request."""
        begun = time.monotonic()
        for number in range(request.samples):
            time.sleep(max(0.0, begun + number * GAP - time.monotonic()))
            self._dump(request)

    def _dump(self, request: DumpRequest) -> None:
        """Dump the processes of a request and print what comes.

        The children of one whose main thread may be waiting for one come, too.
        """
        manner = Manner(self._spy, request.native, request.blocking, request.deadline, request.sudo, self._refusals)
        known = set(request.pids)
        left = self._want([(pid, pid) for pid in request.pids], manner)
        while left:
            dump = self._done.get()
            if isinstance(dump, Exception):
                raise dump
            left -= 1
            say(dump)
            if dump.pid == dump.rank_pid and _may_wait_for_children(dump):
                children = [pid for pid in process_state.children(dump.pid) if pid not in known]
                known.update(children)
                left += self._want([(pid, dump.pid) for pid in children], manner)

    def _want(self, targets: Sequence[Target], manner: Manner) -> int:
        """Have these looked at by threads that live as long as this program: a child of theirs ends with its thread."""
        for target in targets:
            self._wanted.put((target, manner))
        while self._workers < min(max(2, min(16, os.cpu_count() or 2)), len(targets)):
            self._workers += 1
            threading.Thread(target=self._work, daemon=True).start()
        return len(targets)

    def _work(self) -> None:
        while True:
            (pid, rank_pid), manner = self._wanted.get()
            try:
                self._done.put(look(pid, rank_pid, manner))
            except Exception as error:  # noqa: BLE001 (the main thread raises it)
                self._done.put(error)


def _may_wait_for_children(dump: StackDump) -> bool:
    main = pyspy_output.main_thread(dump.threads, dump.pid)
    return main is not None and any(part in frame.file for frame in main.frames for part in _PARENTAL)
