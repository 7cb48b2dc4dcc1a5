"""Dumps the stacks of this node's processes, several at a time, and prints one StackDump per line.

Started like every program on a node (see ``collectors.fleet.payload``); its arguments are the fields of
:class:`DumpRequest`. If the node has no py-spy, the program requests one. After a request is answered, the program
waits a few seconds for the next one (a line of JSON), because its start costs as much as looks at six ranks.
"""

from __future__ import annotations

import json
import os
import threading
import time
from queue import SimpleQueue
from typing import Optional, Sequence, Union

from collectors.node.processes import process_state
from collectors.node.stacks import pyspy
from collectors.node.stacks.reader import DumpRequest, StackReader
from collectors.node.wire import Answered, say
from collectors.samples.stacks import StackDump

_PARENTAL = ("torch/utils/data/dataloader.py", "/multiprocessing/", "/concurrent/futures/", "/subprocess.py")
"""A main thread with a frame in one of these files may be waiting for a child process."""
LINGER = 8
"""Seconds to wait for another request."""
GAP = 0.5
"""Seconds between samples."""


def main(arguments: Sequence[object]) -> None:
    """Answer requests; ``arguments`` are the fields of the first :class:`DumpRequest`."""
    lines = pyspy.InputLines()
    request = DumpRequest(*arguments)  # type: ignore[arg-type]
    dumper = StackDumper(pyspy.find_or_borrow(lines))
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
        self._reader = StackReader(spy)
        self._room = threading.Semaphore(max(2, min(16, os.cpu_count() or 2)))
        self._done: "SimpleQueue[Union[StackDump, Exception]]" = SimpleQueue()

    def run(self, request: DumpRequest) -> None:
        """Take every sample of a request."""
        begun = time.monotonic()
        for number in range(request.samples):
            time.sleep(max(0.0, begun + number * GAP - time.monotonic()))
            self._dump(request)

    def _dump(self, request: DumpRequest) -> None:
        """Dump the processes of a request and print each dump as it arrives.

        If a rank's main thread may be waiting for a child process, its children are dumped too.
        """
        known = set(request.pids)
        for pid in request.pids:
            self._start(pid, pid, request)
        left = len(request.pids)
        while left:
            dump = self._done.get()
            if isinstance(dump, Exception):
                raise dump
            left -= 1
            say(dump)
            frames = dump.main.frames if dump.main is not None and dump.pid == dump.rank_pid else []
            if any(part in frame.file for frame in frames for part in _PARENTAL):
                for pid in set(process_state.children(dump.pid)) - known:
                    known.add(pid)
                    left += 1
                    self._start(pid, dump.pid, request)

    def _start(self, pid: int, rank_pid: int, request: DumpRequest) -> None:
        threading.Thread(target=self._look, args=(pid, rank_pid, request), daemon=True).start()

    def _look(self, pid: int, rank_pid: int, request: DumpRequest) -> None:
        with self._room:
            try:
                self._done.put(self._reader.read(pid, rank_pid, request))
            except Exception as error:  # noqa: BLE001 (the main thread raises it)
                self._done.put(error)
