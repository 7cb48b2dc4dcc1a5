"""A node that means harm answers what it is asked with far more than that: what is kept and sent stays bounded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence

import pytest

from collectors.fleet.transport import Completed, Process, TransportError
from collectors.probes.gather import gather


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
