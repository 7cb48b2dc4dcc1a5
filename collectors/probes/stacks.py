"""Stacks of ranks: a dumper is shipped to a node, lent a py-spy where it has none, and asked again while it lives."""

from __future__ import annotations

import asyncio
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
from collectors.fleet.transport import Transport
from collectors.node.stacks.asking import WantsPySpy
from collectors.node.stacks.stackdump import GAP, DumpRequest
from collectors.probes.running import Limits, Running, Unreadable, answer
from collectors.samples.stacks import StackDump

__all__ = ["DumpRequest", "Dumper", "dump", "lending_once", "loan"]

ENTRY = "collectors.node.stacks.stackdump"
LINE_LIMIT = 16 << 20
"""Bytes of one dump: a process of a thousand threads, with native frames, stays under it."""

_WISHES = b'["WantsPySpy",'
_END = b'["Answered",'
_wish, _dump = answer(WantsPySpy), answer(StackDump)
LIMITS = Limits(line=LINE_LIMIT, total=4 * LINE_LIMIT)

_Idle: TypeAlias = "WeakKeyDictionary[Transport, dict[tuple[str, str], list[Dumper]]]"
NATIVE_DEADLINE = 20.0
"""Seconds that one py-spy may take with native frames."""
_START_SECONDS = 20.0
_ANY = DumpRequest()


class Dumper:
    """One dumper; it answers one request at a time."""

    def __init__(self, transport: Transport, request: DumpRequest, python: str) -> None:
        self._lend = lending_once(loan)
        self._take: Callable[[StackDump], None] = lambda _: None
        self.dumped = False
        """A dump of the present request has come."""
        self._answered = asyncio.Event()
        self._unread = ""
        # At a low priority a dump would wait behind busy ranks, and a paused one with it.
        words = command(python, nice=False)
        packed = pack(ENTRY, list(request))
        self._running = Running(transport, words, packed, self._line, limits=LIMITS)

    @classmethod
    async def start(cls, transport: Transport, request: DumpRequest, python: str) -> Dumper:
        """Start one with its first request. Raises :class:`~collectors.fleet.transport.TransportError`."""
        made = cls(transport, request, python)
        await made._running.start()
        return made

    @property
    def ended(self) -> bool:
        """True when it is no longer there."""
        return self._running.over

    def ask(self, request: DumpRequest) -> None:
        """Send it another request."""
        self._answered.clear()
        self._running.renew()
        self._running.write(json.dumps(list(request)).encode() + b"\n")

    async def answer(self, take: Callable[[StackDump], None], limit: float) -> str:
        """Wait until the request is answered, ``take`` called with each dump; else the reason, and it is ended."""
        self._take, self.dumped = take, False
        answered = asyncio.create_task(self._answered.wait())
        ended = asyncio.create_task(self._running.ended())
        try:
            await asyncio.wait({answered, ended}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if self._answered.is_set():
                return ""
            if not ended.done():
                return "the dumper did not answer in time"
            return f"the dumper ended with status {ended.result()}"  # a broken connection is -1
        finally:
            answered.cancel()
            ended.cancel()
            if not self._answered.is_set():
                self._running.stop()

    def said(self) -> str:
        """What it printed for this request that is no answer, in one line."""
        unread, self._unread = self._unread, ""
        return unread or self._running.said()

    def _line(self, line: bytes) -> bool:
        """Take a line, whatever it is; none is the last, as more can be asked."""
        if line.startswith(_WISHES):
            try:
                wish = _wish(line)
            except Unreadable:
                wish = WantsPySpy("", "")  # cannot be fulfilled, but must be answered: the node waits
            self._running.write(self._lend(wish.machine))
        elif line.startswith(_END):
            self._answered.set()
        else:
            try:
                taken = _dump(line)
            except Unreadable as error:
                self._unread = f"unreadable answer: {error}"
            else:
                self.dumped = True
                self._take(taken)
        return False


_idle: _Idle = WeakKeyDictionary()
"""Dumpers that have answered and may be asked again, by the connection that they run over, then by their settings."""


async def dump(
    transport: Transport, pids: Sequence[int], request: DumpRequest = _ANY, *, python: str = "python3"
) -> list[StackDump]:
    """Look at these processes of one node, all at once, as ``request`` says.

    Every pid gets an answer, frames or an ``error``; helpers that a process waits for come too. Times are the node's.
    Raises :class:`~collectors.fleet.transport.TransportError` when the node cannot be reached or the program not be
    started.
    """
    dumps: list[StackDump] = []
    deadline = max(request.deadline, NATIVE_DEADLINE) if request.native else request.deadline
    asked = request._replace(pids=list(pids), deadline=deadline)
    # its own deadlines pass long before, unless the link is cut
    limit = _START_SECONDS + asked.samples * (GAP + asked.deadline * (2 + len(pids) / 8))
    idle = _idle.setdefault(transport, {}).setdefault((python, request.py_spy), [])
    dumper, why = None, ""
    while idle and dumper is None:
        known = idle.pop()
        if known.ended:
            continue
        known.ask(asked)
        why = await known.answer(dumps.append, limit)
        if not why or known.dumped or not known.ended:  # only one that had gone meanwhile is replaced
            dumper = known
    if dumper is None:
        dumper = await Dumper.start(transport, asked, python)
        why = await dumper.answer(dumps.append, limit)
    if not why:
        idle.append(dumper)
    why = ": ".join(filter(None, (why, dumper.said())))
    answered = {sample.pid for sample in dumps}
    # no word on the process itself: it is the node that did not answer, which says nothing of its ranks
    dumps += [
        StackDump(pid, pid, time.time(), "none", "", "", "", 0.0, f"unreachable: {why or 'no word of it'}", [])
        for pid in pids
        if pid not in answered
    ]
    return dumps


# --- the loan of a py-spy ----------------------------------------------------------------------------------------

NOTHING = b"%08x" % 0
"""Said instead of a py-spy."""
FAST = 1
"""Level of compression: 8 MB become 3.2 in 0.1 s; a better one saves half a megabyte and costs four times that."""

_SAME = {"amd64": "x86_64", "arm64": "aarch64"}


def own_py_spy() -> Path | None:
    """Path of the py-spy that was installed with hangtop; None when somebody removed it."""
    beside = Path(sys.executable).parent / "py-spy"
    if beside.is_file():
        return beside
    found = shutil.which("py-spy")
    return Path(found) if found else None


@lru_cache(maxsize=1)
def _compressed(path: Path) -> bytes:
    return zlib.compress(path.read_bytes(), FAST)


def lending_once(lend: Callable[[str], bytes]) -> Callable[[str], bytes]:
    """``lend`` for one program: what could make no use of it, or says that it needs it ever again, gets none."""
    asked = False

    def once(machine: str) -> bytes:
        nonlocal asked
        before, asked = asked, True
        return NOTHING if before else lend(machine)

    return once


def loan(machine: str) -> bytes:
    """What to write to a node that wants a py-spy: size as 8 hexadecimal digits, then the compressed binary.

    Size 0 where ours does not run there: it is built for one processor and for Linux.
    """
    path = own_py_spy()
    here = _SAME.get(platform.machine().lower(), platform.machine())
    if path is None or sys.platform != "linux" or here != _SAME.get(machine.lower(), machine):
        return NOTHING
    binary = _compressed(path)
    return b"%08x" % len(binary) + binary
