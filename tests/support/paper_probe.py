"""Workers of a collective probe on paper: what they answer is decided by the test, not by torch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from collectors.fleet.transport import Completed, Output, Process, Transport, TransportError
from collectors.node.wire import encode
from collectors.probes.remote.allreduce import WorkerReport


class PaperNetwork(Protocol):
    """What decides."""

    log: bytes
    """Of NCCL, said by every worker at its start."""
    left: set[PaperWorker]
    """Workers that have not been ended."""

    def serve(self, worker: PaperWorker, command: dict[str, Any], rank: int) -> None:
        """Answer a command for one rank, through ``worker.tell``."""


class PaperWorker(Process):
    """Answers commands as a worker would; ``network`` decides how."""

    def __init__(self, network: PaperNetwork, name: str, say: Callable[[bytes], None]) -> None:
        self.network, self.name = network, name
        self._say = say
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.started = False

    def tell(self, kind: str, **fields: Any) -> None:
        asyncio.get_running_loop().call_soon(self._say, encode(WorkerReport(kind, **fields)))

    def write(self, data: bytes) -> None:
        if not self.started:
            self.started = True
            if b"all_reduce_perf" in data:
                self._ended.set_result(127)  # no nccl-tests here
                return
            self.tell("ready")
            self._say(self.network.log)
        elif data.strip():
            command = json.loads(data)
            for _, rank in command["ranks"]:
                self.network.serve(self, command, rank)

    def write_eof(self) -> None:
        self.network.left.discard(self)

    def kill(self) -> None:
        if not self._ended.done():
            self._ended.set_result(-9)

    def _call(self, call: str, *arguments: bytes) -> None: ...

    async def wait(self) -> int:
        return await self._ended


class PaperTransport(Transport):
    """Starts such workers."""

    connected = True

    def __init__(self, name: str, network: PaperNetwork) -> None:
        super().__init__(name)
        self._network = network

    async def start(self, command: Sequence[str], *, on_stdout: Output, on_stderr: Output) -> PaperWorker:
        worker = PaperWorker(self._network, self.name, on_stdout)
        self._network.left.add(worker)
        return worker

    async def connect(self) -> None: ...

    async def close(self) -> None: ...

    async def run(self, *_: object, **__: object) -> Completed:
        raise TransportError("not asked for here")
