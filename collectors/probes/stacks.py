"""Stacks of ranks: a dumper is shipped to a node, lent a py-spy where it has none, and asked again while it lives."""

from __future__ import annotations

import base64
import json
import platform
import shutil
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias
from weakref import WeakKeyDictionary

from collectors.fleet.payload import command, pack
from collectors.fleet.transport import Transport, TransportError
from collectors.node.stacks.look import DumpRequest
from collectors.node.stacks.pyspy import WantsPySpy
from collectors.node.stacks.stackdump import GAP
from collectors.node.wire import encode
from collectors.probes.running import ANSWERED, Limits, Running, answer
from collectors.samples.stacks import StackDump
from collectors.samples.stream import Lent

__all__ = ["DumpRequest", "dump", "lending_once", "loan"]

ENTRY = "collectors.node.stacks.stackdump"
LINE_LIMIT = 16 << 20
"""Bytes of one dump: a process of a thousand threads, with native frames, stays under it."""
LIMITS = Limits(line=LINE_LIMIT, total=4 * LINE_LIMIT)
NATIVE_DEADLINE = 20.0
"""Seconds that one py-spy may take with native frames."""
START_SECONDS = 20.0

_ANY = DumpRequest()
_dump = answer(StackDump)
_Idle: TypeAlias = "WeakKeyDictionary[Transport, dict[str, list[Dumper]]]"


class Dumper:
    """One dumper; it answers one request at a time."""

    def __init__(self, transport: Transport, request: DumpRequest, python: str) -> None:
        self._lend = lending_once()
        self._take: Callable[[StackDump], None] = lambda _: None
        # At a low priority a dump would wait behind busy ranks, and a paused one with it.
        words = command(python, nice=False)
        self.running = Running(transport, words, pack(ENTRY, list(request)), self._line, limits=LIMITS)

    async def answer(self, take: Callable[[StackDump], None], limit: float) -> None:
        """Wait until its request is answered, ``take`` called with each dump. Raises :class:`TransportError`."""
        self._take = take
        try:
            await self.running.finished(limit)
        except BaseException:
            self.running.stop()
            raise

    def _line(self, line: bytes) -> bool:
        """Take a line; True for the last one of a request."""
        wish = self._lend(line)
        if wish:
            self.running.write(wish)
        elif line.startswith(ANSWERED):
            return True
        else:
            self._take(_dump(line))
        return False


_idle: _Idle = WeakKeyDictionary()
"""Dumpers that have answered and may be asked again, by their connection, then by their interpreter."""


async def dump(
    transport: Transport, pids: Sequence[int], request: DumpRequest = _ANY, *, python: str = "python3"
) -> list[StackDump]:
    """Look at these processes of one node, all at once, as ``request`` says.

    Every pid gets an answer, frames or an ``error``; helpers that a process waits for come too. Times are the node's.
    Raises :class:`TransportError` when the node cannot be reached or the program not be started.
    """
    dumps: list[StackDump] = []
    deadline = max(request.deadline, NATIVE_DEADLINE) if request.native else request.deadline
    asked = request._replace(pids=list(pids), deadline=deadline)
    # its own deadlines pass long before, unless the link is cut
    limit = START_SECONDS + asked.samples * (GAP + asked.deadline * (2 + len(pids) / 8))
    idle = _idle.setdefault(transport, {}).setdefault(python, [])
    while True:
        known = bool(idle)
        dumper = idle.pop() if known else Dumper(transport, asked, python)
        if known:
            dumper.running.renew(json.dumps(list(asked)).encode() + b"\n")
        else:
            await dumper.running.start()
        try:
            await dumper.answer(dumps.append, limit)
            idle.append(dumper)
            why = dumper.running.said()
        except TransportError as error:
            if known and dumper.running.over and not dumps:
                continue  # it had gone meanwhile
            why = str(error)
        break
    answered = {sample.pid for sample in dumps}
    # no word on the process itself: it is the node that did not answer, which says nothing of its ranks
    dumps += [
        StackDump(pid, pid, time.time(), "none", "", "", "", 0.0, f"unreachable: {why or 'no word of it'}", [])
        for pid in pids
        if pid not in answered
    ]
    return dumps


# --- the loan of a py-spy ----------------------------------------------------------------------------------------

FAST = 1
"""Level of compression: 8 MB become 3.2 in 0.1 s; a better one saves half a megabyte and costs four times that."""

_SAME = {"amd64": "x86_64", "arm64": "aarch64"}
_WISH = b'["WantsPySpy",'
_wish = answer(WantsPySpy)


def own_py_spy() -> Path | None:
    """Path of the py-spy that was installed with hangtop; None when somebody removed it."""
    beside = Path(sys.executable).parent / "py-spy"
    if beside.is_file():
        return beside
    found = shutil.which("py-spy")
    return Path(found) if found else None


@lru_cache(maxsize=1)
def _packed(path: Path) -> str:
    return base64.b64encode(zlib.compress(path.read_bytes(), FAST)).decode()


def lending_once() -> Callable[[bytes], bytes]:
    """What answers the lines of one program in which it wishes for a py-spy; empty for all other lines.

    A program that could make no use of a py-spy, or wishes for one ever again, gets none.
    """
    asked = False

    def once(line: bytes) -> bytes:
        nonlocal asked
        if not line.startswith(_WISH):
            return b""
        before, asked = asked, True
        return loan("" if before else _wish(line).machine)

    return once


def loan(machine: str) -> bytes:
    """The line for a node that wants a py-spy, without content where ours does not run there.

    Ours is built for one processor and for Linux.
    """
    path = own_py_spy() if sys.platform == "linux" else None
    here = _SAME.get(platform.machine().lower(), platform.machine())
    runs_there = here == _SAME.get(machine.lower(), machine)
    return encode(Lent("py-spy", _packed(path) if path is not None and runs_there else ""))
