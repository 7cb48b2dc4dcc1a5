"""The program that is sent to a node: reads the traces that lie there, or asks the node's ranks for new ones.

Arguments: ``patterns`` (tell which files they name), ``paths`` (read these), or ``ranks`` as [rank, pid] each, with
``seconds`` and ``token`` to trace them and without to find out how they can be asked. Every :class:`RankTrace` is told
when it is done, :class:`Done` comes last. Whatever comes on standard input re-arms the alarm that ends it.
"""

from __future__ import annotations

import os
import threading
from typing import Dict, List, NamedTuple, Tuple

from collectors.node import watchdog
from collectors.node.say import say
from collectors.probes.trace.remote import capture, files, ways
from collectors.samples.traces import RankTrace

LOWER = 9
"""What is added to the niceness while traces are read: that takes seconds of a core, which anybody may have before."""


class ListedTrace(NamedTuple):
    """One file. The same one on shared storage has the same three on every node."""

    path: str
    size: int
    """-1 for one that cannot be looked at."""
    modified: int
    """Nanoseconds since the epoch."""


class Done(NamedTuple):
    """Nothing more comes."""

    traces: int


class _Teller:
    """Prints one line at a time, from whichever thread."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self.told = 0

    def __call__(self, trace: RankTrace) -> None:
        with self._turn:
            say(trace)
            self.told += 1


@watchdog.program
def main(arguments: Dict[str, object]) -> None:
    """Entry."""
    tell = _Teller()
    patterns, paths, ranks = map(arguments.get, ("patterns", "paths", "ranks"))
    seconds = arguments.get("seconds")
    if isinstance(patterns, list):
        for path in files.find([str(pattern) for pattern in patterns]):
            say(_listed(path))
    elif isinstance(paths, list):
        os.nice(LOWER)
        for path in paths:
            tell(capture.from_file(str(path)))
    elif isinstance(ranks, list):
        pairs = [(int(rank), int(pid)) for rank, pid in ranks]
        if isinstance(seconds, (int, float)):
            _trace(pairs, float(seconds), str(arguments.get("token", os.getpid())), tell)
        else:
            for rank, pid in pairs:
                say(ways.find(rank, pid))
    say(Done(tell.told))


def _listed(path: str) -> ListedTrace:
    try:
        status = os.stat(path)
    except OSError:
        return ListedTrace(path, -1, 0)
    return ListedTrace(path, status.st_size, status.st_mtime_ns)


def _trace(pairs: List[Tuple[int, int]], seconds: float, token: str, tell: _Teller) -> None:
    """All ranks at the same time: what one waits for, another one does."""
    found = [ways.find(rank, pid) for rank, pid in pairs]
    daemons = [way for way in found if way.way == ways.DYNOLOG]
    if daemons:
        capture.from_dynolog(daemons, seconds, token, tell)
    for way in found:
        if not way.way:
            tell(capture.unread("pid %d" % way.pid, way.why)._replace(rank=way.rank))
