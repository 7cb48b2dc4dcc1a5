"""Stacks of ranks: ship a dumper to a node, lend it a py-spy if the node has none, and reuse it while it lives."""

from __future__ import annotations

import base64
import json
import os
import platform
import shutil
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from weakref import WeakKeyDictionary

from collectors.fleet.payload import command, pack
from collectors.fleet.transport import Transport, TransportError
from collectors.node.stacks.pyspy import WantsPySpy
from collectors.node.stacks.reader import DumpRequest
from collectors.node.stacks.stackdump import GAP
from collectors.node.wire import encode
from collectors.probes.running import ANSWERED, Limits, Running, answer
from collectors.samples.stacks import StackDump
from collectors.samples.stream import Lent

__all__ = ["DumpRequest", "dump", "lending_once", "loan"]

ENTRY = "collectors.node.stacks.stackdump"
LINE_LIMIT = 16 << 20
"""Most bytes of one dump: a process of a thousand threads with native frames needs less."""
LIMITS = Limits(line=LINE_LIMIT, total=4 * LINE_LIMIT)
NATIVE_DEADLINE = 20.0
"""Time-out of one py-spy with native frames, in seconds."""
START_SECONDS = 20.0

_ANY = DumpRequest()
_dump = answer(StackDump)


class Dumper:
    """A dumper on a node, which answers one request at a time."""

    def __init__(self, transport: Transport, request: DumpRequest) -> None:
        self._lend = lending_once()
        self._take: Callable[[StackDump], None] = lambda _: None
        # At a low priority a dump would wait behind busy ranks while it pauses a rank.
        words = command(transport.python, nice=False)
        self.running = Running(transport, words, pack(ENTRY, list(request)), self._line, limits=LIMITS)

    async def answer(self, take: Callable[[StackDump], None], limit: float) -> None:
        """Wait for the answer to its request; ``take`` gets each dump. Raises :class:`TransportError`."""
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


_idle: WeakKeyDictionary[Transport, list[Dumper]] = WeakKeyDictionary()
"""Dumpers free for another request, by connection."""


async def dump(transport: Transport, pids: Sequence[int], request: DumpRequest = _ANY) -> list[StackDump]:
    """Dump these processes of one node, all at once, with the options of ``request``.

    Returns a dump for each pid, with frames or an ``error``, and dumps of awaited helpers. Times are the node's.
    Raises :class:`TransportError` if the node cannot be reached or the program cannot be started.
    """
    dumps: list[StackDump] = []
    deadline = max(request.deadline, NATIVE_DEADLINE) if request.native else request.deadline
    asked = request._replace(pids=list(pids), deadline=deadline)
    # the node's own deadlines pass earlier, unless the link is cut
    limit = START_SECONDS + asked.samples * (GAP + asked.deadline * (2 + len(pids) / 8))
    idle = _idle.setdefault(transport, [])
    while True:
        known = bool(idle)
        dumper = idle.pop() if known else Dumper(transport, asked)
        if known:
            dumper.running.renew(json.dumps(list(asked)).encode() + b"\n")
        else:
            await dumper.running.start()
        try:
            await dumper.answer(dumps.append, limit)
            idle.append(dumper)
            why = dumper.running.last_error()
        except TransportError as error:
            if known and dumper.running.over and not dumps:
                continue  # the dumper had ended meanwhile
            why = str(error)
        break
    answered = {sample.pid for sample in dumps}
    # the node did not answer, which shows nothing about its ranks: all fields of the process stay empty
    dumps += [
        StackDump(pid, pid, time.time(), "none", "", "", "", 0.0, f"unreachable: {why or 'no answer'}", [])
        for pid in pids
        if pid not in answered
    ]
    return dumps


# --- the loan of a py-spy ----------------------------------------------------------------------------------------

FAST = 1
"""Level of compression: 8 MB become 3.2 MB in 0.1 s; a higher level saves 0.5 MB and takes four times as long."""

_WISH = b'["WantsPySpy",'
_wish = answer(WantsPySpy)


@lru_cache(maxsize=1)
def _packed(path: str) -> str:
    return base64.b64encode(zlib.compress(Path(path).read_bytes(), FAST)).decode()


def lending_once() -> Callable[[bytes], bytes]:
    """Function that answers the request of one program for a py-spy; it returns nothing for all other lines.

    A program gets no py-spy that cannot run there, and no second one.
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
    """The line with our py-spy for a node, without content if our py-spy does not run there.

    Our py-spy is built for one processor architecture and for Linux.
    """
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    path = shutil.which("py-spy", path=places) if (sys.platform, platform.machine()) == ("linux", machine) else None
    return encode(Lent("py-spy", "" if path is None else _packed(path)))
