"""The local half of a recording: ships the recorder, follows it, stops it, takes the folded stacks."""

from __future__ import annotations

import asyncio
import binascii
import shlex
import zlib
from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from collectors.fleet.clean import clean, clean_bytes
from collectors.fleet.payload import command, pack
from collectors.fleet.transport import Process, Transport
from collectors.node.asking import WantsPySpy
from collectors.node.flamerecord import LIMIT, Progress, Recording, Request
from collectors.node.pyspy import record_command
from collectors.probes.stacks.lender import loan

_PARTS = "asking child files flamerecord lifeline pyspy pyspy_output source standing tracing wire"
MODULES = tuple(f"collectors.node.{part}" for part in _PARTS.split())

_MARGIN = 40.0
_KIND = msgspec.json.Decoder(tuple[str, msgspec.Raw]).decode
_DECODERS = {kind.__name__: msgspec.json.Decoder(kind).decode for kind in (Progress, Recording, WantsPySpy)}


@dataclass(frozen=True, slots=True)
class Recorded:
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
) -> list[Recorded]:
    """Sample these processes of one node for ``seconds`` at ``rate`` a second, without pausing them.

    ``on_progress`` hears seconds done and processes running, twice a second. Setting ``stop`` ends it early with what
    there is; cancelling ends it without. Every pid gets an answer. Raises
    :class:`~collectors.fleet.transport.TransportError` when the program cannot be started.
    """
    found: dict[int, Recorded] = {}
    errors = bytearray()
    running: list[Process] = []

    def take(line: bytes) -> None:
        sample = _decode(line)
        if isinstance(sample, Progress) and on_progress is not None:
            on_progress(sample.elapsed, sample.running)
        elif isinstance(sample, Recording):
            found[sample.pid] = _unpacked(sample)
        elif isinstance(sample, WantsPySpy):
            running[0].write(loan(sample.machine))

    lines = _Lines(take)
    process = await transport.start(command(python, nice=False), on_stdout=lines.feed, on_stderr=errors.extend)
    running.append(process)
    request = Request(list(pids), seconds, rate, py_spy)
    process.write(pack("collectors.node.flamerecord", list(request), modules=MODULES))
    stopping = asyncio.create_task(_pass_on(stop, process))
    try:
        await asyncio.wait_for(process.wait(), seconds + _MARGIN)
        why = "failed: the recorder ended early"
    except TimeoutError:
        why = "timeout: the recorder did not answer"
    finally:
        stopping.cancel()
        process.kill()
    said = clean_bytes(bytes(errors[-2000:])).strip().rpartition("\n")[2]
    absent = Recorded(0, 0.0, "", f"{why}: {said}" if said else why)
    return [found.get(pid, Recorded(pid, 0.0, "", absent.error)) for pid in pids]


async def _pass_on(stop: asyncio.Event | None, process: Process) -> None:
    if stop is not None:
        await stop.wait()
        process.write(b"stop\n")


class _Lines:
    """Splits chunks of any size into lines; one that never ends is dropped."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take a chunk."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(line)
        if len(self._rest) > 2 * LIMIT:
            self._rest = b""


def _decode(line: bytes) -> object:
    """One line; None for one that is none, whose process then counts as unanswered."""
    try:
        kind, fields = _KIND(line)
        decode = _DECODERS.get(kind)
        return None if decode is None else decode(fields)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _unpacked(sample: Recording) -> Recorded:
    try:
        unpacker = zlib.decompressobj()
        stacks = unpacker.decompress(b64decode(sample.stacks, validate=True), LIMIT)
    except (zlib.error, binascii.Error, ValueError):
        return Recorded(sample.pid, sample.seconds, "", "failed: the recording came broken")
    return Recorded(sample.pid, sample.seconds, clean(stacks.decode("utf-8", "replace")), clean(sample.error))
