"""A node that means harm answers what it is asked with far more than that: what is kept and sent stays bounded."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import zlib
from collections.abc import Callable, Sequence

import pytest

from collectors.fleet.transport import Completed, Process, TransportError
from collectors.node.stacks.asking import WantsPySpy
from collectors.node.stacks.dump_request import DumpRequest
from collectors.node.stacks.flamerecord import FlameRecording
from collectors.probes.flame.record import record
from collectors.probes.gather import gather
from collectors.probes.recorder import fetch
from collectors.probes.stacks.dumper import Dumper, DumpOrder
from collectors.samples.asked import RecorderFile


class Talker:
    """A program on a hostile node: says all of this as soon as it has been written to, then ends."""

    def __init__(self, say: Sequence[bytes], out: Callable[[bytes], None]) -> None:
        self._say = say
        self._out = out
        self.written = 0
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def write(self, data: bytes) -> None:
        self.written += len(data)
        if self._say:
            asyncio.get_running_loop().call_soon(self._talk, self._say)
            self._say = ()

    def _talk(self, lines: Sequence[bytes]) -> None:
        for line in lines:
            self._out(line)
        self.kill()

    def write_eof(self) -> None:
        pass

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def kill(self) -> None:
        if not self._ended.done():
            self._ended.set_result(0)


class Hostile:
    """A node of which every program is a :class:`Talker`."""

    name = "node2"

    def __init__(self, say: Sequence[bytes]) -> None:
        self._say = say
        self.talker: Talker | None = None

    async def connect(self) -> None: ...

    async def close(self) -> None: ...

    async def run(
        self, command: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0, limit: int = 1
    ) -> Completed:
        raise TransportError("it runs nothing to its end")

    async def start(
        self, command: Sequence[str], *, on_stdout: Callable[[bytes], None], on_stderr: Callable[[bytes], None]
    ) -> Process:
        self.talker = Talker(self._say, on_stdout)
        return self.talker


def line(sample: object) -> bytes:
    return json.dumps([type(sample).__name__, sample]).encode() + b"\n"


async def test_answers_without_end_are_not_all_kept() -> None:
    row = b'["Observation",["port","eth0",1,"' + b"x" * 60 + b'"]]\n'
    told: list[bytes] = []

    def take(said: bytes) -> bool:
        told.append(said)
        return False

    with pytest.raises(TransportError, match="more than 8 MB"):
        await gather(Hostile([row * 1000] * 400), ["python3"], b"x", take, 10.0)
    assert sum(map(len, told)) <= 8 << 20


async def test_no_more_dumps_are_kept_than_ranks_were_asked_for() -> None:
    file = RecorderFile(3, 41, "/tmp/x", 1.0, base64.b64encode(b"no dump").decode(), "", "")
    found = await fetch.fetch(
        Hostile([line(file) * 500, line(file._replace(rank=-1))]), "python3", [(3, 41, 0.0)], fresh=False
    )
    assert len(found) == 1


async def test_a_py_spy_is_lent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is three megabytes that wait to be sent, and a hostile node takes none of them."""
    loans: list[str] = []

    def lend(machine: str) -> bytes:
        loans.append(machine)
        return b"%08x" % 1000 + bytes(1000)

    monkeypatch.setattr(sys.modules[record.__module__], "loan", lend)
    node = Hostile([line(WantsPySpy("x86_64", "")) * 200])
    await record(node, [7], seconds=0.1)
    assert loans == ["x86_64"]
    assert node.talker is not None
    node = Hostile([line(WantsPySpy("x86_64", "")) * 200])
    order = DumpOrder(DumpRequest([[7, 7]]), "python3", 5.0, lend)
    dumper = await Dumper.start(node, order)
    await dumper.answer(lambda _dump: None, 5.0)
    assert loans == ["x86_64"] * 2


async def test_stacks_are_unpacked_of_those_alone_that_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen kilobytes unpack to sixteen megabytes, and a process can be made up with each line."""
    module, unpacked = sys.modules[record.__module__], []

    def counted(sample: FlameRecording, unpack: Callable[[FlameRecording], object] = module._unpacked) -> object:
        unpacked.append(sample.pid)
        return unpack(sample)

    monkeypatch.setattr(module, "_unpacked", counted)
    stacks = base64.b64encode(zlib.compress(b"a;b 1\n" * 100_000)).decode()
    sample = FlameRecording(0, 1.0, stacks, "")
    said = [line(sample._replace(pid=pid)) for pid in range(1, 60)] + [line(sample._replace(pid=7))] * 5
    found = await record(Hostile(said), [7], seconds=0.1)
    assert [one.pid for one in found] == unpacked == [7]
