"""A dumper on a node from the side of who asks it: started for a first request, at hand for the next ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias
from weakref import WeakKeyDictionary

from collectors.fleet.clean import clean_bytes
from collectors.fleet.payload import command, pack
from collectors.fleet.transport import Process, Transport
from collectors.node.asking import WantsPySpy
from collectors.node.stackdump import Request
from collectors.probes.stacks.answers import Answers
from collectors.samples.stacks import StackDump

_PARTS = "asking child files forked lifeline look pyspy pyspy_output source standing stackdump tracing wire"
MODULES = tuple(f"collectors.node.{part}" for part in _PARTS.split())
"""All that the dumper needs on the node: a third of the whole node side."""

_STDERR_LIMIT = 2000

_Idle: TypeAlias = "WeakKeyDictionary[Transport, dict[tuple[str, str], list[Dumper]]]"


class Dumper:
    """One dumper; it answers one request at a time."""

    def __init__(self, lend: Callable[[str], bytes]) -> None:
        self._lend = lend
        self._take: Callable[[StackDump], None] = lambda _dump: None
        self.dumped = False
        """A dump of the present request has come."""
        self._answered = asyncio.Event()
        self._answers = Answers(self._dump, self._wish, self._answered.set)
        self._errors = bytearray()
        self._process: Process | None = None
        self._end: asyncio.Task[int] | None = None

    @classmethod
    async def start(cls, transport: Transport, order: Order) -> Dumper:
        """Start one with its first request. Raises :class:`~collectors.fleet.transport.TransportError`."""
        made = cls(order.lend)
        # At the lowest priority a dump would wait behind busy ranks, and a paused one with it.
        words = command(order.python, nice=False)
        made._process = await transport.start(words, on_stdout=made._answers.feed, on_stderr=made._complain)
        made._end = asyncio.create_task(made._process.wait(), name="hangtop dumper")
        made._process.write(pack("collectors.node.stackdump", list(order.request), modules=MODULES))
        return made

    @property
    def ended(self) -> bool:
        """True when it is no longer there."""
        return self._end is None or self._end.done()

    def ask(self, request: Request) -> None:
        """Send it another request."""
        assert self._process is not None
        self._answered.clear()
        self._process.write(json.dumps(list(request)).encode() + b"\n")

    async def answer(self, take: Callable[[StackDump], None], limit: float) -> str:
        """Wait until the request is answered, ``take`` called with each dump; else the reason, and it is ended."""
        assert self._end is not None
        self._take, self.dumped = take, False
        answered = asyncio.create_task(self._answered.wait())
        try:
            await asyncio.wait({answered, self._end}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if self._answered.is_set():
                return ""
            if not self._end.done():
                return "the dumper did not answer in time"
            return f"the dumper ended with status {self._end.result()}"  # a broken connection is -1
        finally:
            answered.cancel()
            if not self._answered.is_set():
                self.kill()

    def said(self) -> str:
        """What it printed for this request that is no answer, in one line."""
        return self._answers.bad() or clean_bytes(bytes(self._errors)).strip().rpartition("\n")[2]

    def kill(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()

    def _dump(self, dump: StackDump) -> None:
        self.dumped = True
        self._take(dump)

    def _wish(self, wish: WantsPySpy) -> None:
        assert self._process is not None
        self._process.write(self._lend(wish.machine))

    def _complain(self, data: bytes) -> None:
        self._errors.extend(data[: _STDERR_LIMIT - len(self._errors)])


_idle: _Idle = WeakKeyDictionary()
"""Dumpers that have answered and may be asked again, by the connection that they run over, then by their settings."""


@dataclass(frozen=True, slots=True)
class Order:
    """A request, the interpreter that answers it there, the seconds that it may take, and the py-spy to lend."""

    request: Request
    python: str
    limit: float
    lend: Callable[[str], bytes]


async def carry_out(order: Order, transport: Transport, take: Callable[[StackDump], None]) -> str:
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
