"""The local half of a recording: ships the recorder, follows it, stops it, takes the folded stacks."""

from __future__ import annotations

import asyncio
import binascii
import shlex
import zlib
from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from collectors.fleet.clean import clean
from collectors.fleet.payload import command, pack
from collectors.fleet.transport import Transport
from collectors.node.stacks.asking import WantsPySpy
from collectors.node.stacks.flamerecord import LIMIT, FlameProgress, FlameRecording, FlameRequest
from collectors.node.stacks.pyspy import record_command
from collectors.probes.running import Limits, Running, Unreadable, one_of
from collectors.probes.stacks.lender import lending_once, loan

_MARGIN = 40.0
_told = one_of(FlameProgress, FlameRecording, WantsPySpy)


@dataclass(frozen=True, slots=True)
class FoldedStacks:
    """Folded stacks of one process, ``outer;inner 62`` a line, thread first; or why there are none."""

    pid: int
    seconds: float
    stacks: str
    error: str


def shown_command(pids: Sequence[int], seconds: float, rate: int = 50, py_spy: str = "") -> str:
    """What will be run on a node, to show before it is: one py-spy a process, here for the first of them."""
    words = record_command(py_spy or "py-spy", pids[0] if pids else 0, seconds, rate, "(memory)")
    more = f"  # and {len(pids) - 1} more" if len(pids) > 1 else ""
    return shlex.join(words).replace("'(memory)'", "(memory)") + more


async def record(
    transport: Transport,
    pids: Sequence[int],
    *,
    seconds: float,
    rate: int = 50,
    py_spy: str = "",
    python: str = "python3",
    on_progress: Callable[[float, int], None] | None = None,
    stop: asyncio.Event | None = None,
) -> list[FoldedStacks]:
    """Sample these processes of one node for ``seconds`` at ``rate`` a second, without pausing them.

    ``on_progress`` hears seconds done and processes running, twice a second. Setting ``stop`` ends it early with what
    there is; cancelling ends it without. Every pid gets an answer. Raises
    :class:`~collectors.fleet.transport.TransportError` when the program cannot be started.
    """
    found: dict[int, FoldedStacks] = {}
    lender = lending_once(loan)

    def take(line: bytes) -> bool:
        sample = _decode(line)
        if isinstance(sample, FlameProgress) and on_progress is not None:
            on_progress(sample.elapsed, sample.running)
        elif isinstance(sample, FlameRecording) and sample.pid in pids and sample.pid not in found:
            found[sample.pid] = _unpacked(sample)
        elif isinstance(sample, WantsPySpy):
            running.write(lender(sample.machine))
        return False

    request = FlameRequest(list(pids), seconds, rate, py_spy)
    packed = pack("collectors.node.stacks.flamerecord", list(request))
    limits = Limits(line=2 * LIMIT, total=4 * LIMIT)
    running = Running(transport, command(python, nice=False), packed, take, limits=limits)
    async with running:
        stopping = asyncio.create_task(_pass_on(stop, running))
        try:
            await running.ended(seconds + _MARGIN)
            why = "failed: the recorder ended early"
        except TimeoutError:
            why = "timeout: the recorder did not answer"
        finally:
            stopping.cancel()
    said = running.said()
    absent = FoldedStacks(0, 0.0, "", f"{why}: {said}" if said else why)
    return [found.get(pid, FoldedStacks(pid, 0.0, "", absent.error)) for pid in pids]


async def _pass_on(stop: asyncio.Event | None, running: Running) -> None:
    if stop is not None:
        await stop.wait()
        running.write(b"stop\n")


def _decode(line: bytes) -> object:
    """One line; None for one that is none, whose process then counts as unanswered."""
    try:
        return _told(line)
    except Unreadable:
        return None


def _unpacked(sample: FlameRecording) -> FoldedStacks:
    try:
        unpacker = zlib.decompressobj()
        stacks = unpacker.decompress(b64decode(sample.stacks, validate=True), LIMIT)
    except (zlib.error, binascii.Error, ValueError):
        return FoldedStacks(sample.pid, sample.seconds, "", "failed: the recording came broken")
    return FoldedStacks(sample.pid, sample.seconds, clean(stacks.decode("utf-8", "replace")), sample.error)
