"""A dumper on a node from the side of who asks it: started for a first request, at hand for the next ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias
from weakref import WeakKeyDictionary

from collectors.fleet.decode import Decoder
from collectors.fleet.payload import command, pack
from collectors.fleet.transport import Transport
from collectors.node.stacks.asking import WantsPySpy
from collectors.node.stacks.stackdump import DumpRequest
from collectors.probes.running import Limits, Running, Unreadable, answer
from collectors.probes.stacks.lender import lending_once
from collectors.samples.stacks import StackDump

ENTRY = "collectors.node.stacks.stackdump"
LINE_LIMIT = 16 << 20
"""Bytes of one dump: a process of a thousand threads, with native frames, stays under it."""

_WISHES = b'["WantsPySpy",'
_END = b'["Answered",'
_wish = answer(WantsPySpy)
LIMITS = Limits(line=LINE_LIMIT, total=4 * LINE_LIMIT)

_Idle: TypeAlias = "WeakKeyDictionary[Transport, dict[tuple[str, str], list[Dumper]]]"


def prepare() -> None:
    """Read and compress what is sent, once: tens of milliseconds, in which an event loop would stand still."""
    pack(ENTRY)


class Dumper:
    """One dumper; it answers one request at a time."""

    def __init__(self, transport: Transport, order: DumpOrder) -> None:
        self._lend = lending_once(order.lend)
        self._take: Callable[[StackDump], None] = lambda _dump: None
        self.dumped = False
        """A dump of the present request has come."""
        self._answered = asyncio.Event()
        self._decoder = Decoder(line_limit=LINE_LIMIT)
        # At a low priority a dump would wait behind busy ranks, and a paused one with it.
        words = command(order.python, nice=False)
        packed = pack(ENTRY, list(order.request))
        self._running = Running(transport, words, packed, self._line, limits=LIMITS)

    @classmethod
    async def start(cls, transport: Transport, order: DumpOrder) -> Dumper:
        """Start one with its first request. Raises :class:`~collectors.fleet.transport.TransportError`."""
        made = cls(transport, order)
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
        unread = "; ".join(dict.fromkeys(bad.why for bad in self._decoder.bad_lines()))
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
            for sample in self._decoder.feed(line + b"\n"):
                if isinstance(sample, StackDump):
                    self.dumped = True
                    self._take(sample)
        return False


_idle: _Idle = WeakKeyDictionary()
"""Dumpers that have answered and may be asked again, by the connection that they run over, then by their settings."""


@dataclass(frozen=True, slots=True)
class DumpOrder:
    """A request, the interpreter that answers it there, the seconds that it may take, and the py-spy to lend."""

    request: DumpRequest
    python: str
    limit: float
    lend: Callable[[str], bytes]


async def carry_out(order: DumpOrder, transport: Transport, take: Callable[[StackDump], None]) -> str:
    """Have an order carried out by a dumper that is there, else by a new one; why some of it may be missing, if so.

    ``take`` is called with each dump as it comes. Raises :class:`~collectors.fleet.transport.TransportError`.
    """
    python, request = order.python, order.request
    kept = _idle.setdefault(transport, {}).setdefault((python, request.py_spy), [])
    while kept:
        known = kept.pop()
        if known.ended:
            continue
        known.ask(request)
        why = await known.answer(take, order.limit)
        if not why or known.dumped or not known.ended:  # only one that had gone meanwhile is replaced
            return _keep(kept, known, why)
    made = await Dumper.start(transport, order)
    return _keep(kept, made, await made.answer(take, order.limit))


def _keep(kept: list[Dumper], dumper: Dumper, why: str) -> str:
    """Keep one that has answered; the reason why it has not, or not of all, with what it said."""
    said = dumper.said()
    if not why:
        kept.append(dumper)
        return said
    return f"{why}: {said}" if said else why
