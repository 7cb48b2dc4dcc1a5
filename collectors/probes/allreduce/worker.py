"""The probe's process on a node, seen from this machine: start, commands, reports."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from collectors.fleet import payload
from collectors.fleet.clean import clean
from collectors.fleet.transport import TransportError
from collectors.probes.remote.allreduce import WorkerReport
from collectors.probes.running import Limits, NodeAccess, Running, answer

ENTRY = "collectors.probes.remote.allreduce"
LAUNCH = "collectors.node.processes.launch"
KEPT_LOG, MOST = 1 << 20, 1 << 30
"""Bytes of a worker's other output (NCCL's log among it) that are kept, and that are read."""
IMPORT_SECONDS = 60.0
"""For the import of torch, on a cold file system."""
NCCL_LOG = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV", "NCCL_DEBUG_FILE": "/dev/stdout"}
"""NCCL tells its way in the worker's own output; the name of the file is said so that no nccl.conf says another, and
NCCL writes it line by line."""

_report = answer(WorkerReport)


@dataclass(frozen=True, slots=True)
class ProbeNode:
    """One node that takes part."""

    name: str
    address: str
    """Where the others reach its store."""
    interface: str = ""
    """The one that gloo and NCCL shall use; empty for their own choice."""
    pid: int | None = None
    """A rank of the job whose interpreter and environment the probe borrows."""
    gpus: tuple[int, ...] = ()
    """Indices of its GPUs as nvidia-smi counts; with nccl there is one rank on each."""

    @property
    def ranks(self) -> int:
        """Ranks on this node."""
        return max(1, len(self.gpus))


class Worker:
    """One node's worker: reports go to ``on_report`` as they come."""

    def __init__(self, node: ProbeNode, on_report: Callable[[ProbeNode, WorkerReport], None]) -> None:
        self.node = node
        self.error = ""
        self.log = bytearray()
        """What is no report: NCCL's log, warnings, a traceback."""
        self._settled = asyncio.Event()
        """torch is imported there, or it is known why not."""
        self._on_report = on_report
        self._running: Running | None = None

    async def start(self, access: NodeAccess | None, backend: str, interpreter: str) -> None:
        """Start it and wait until it is ready; an error is kept in ``error``, since one node is not the whole."""
        if access is None:
            self.error = "no connection to this node"
            return
        device = "cuda" if backend == "nccl" else "cpu"
        environment = {**NCCL_LOG, **_visible(self.node)} if device == "cuda" else {}
        if self.node.interface:
            environment["NCCL_SOCKET_IFNAME" if device == "cuda" else "GLOO_SOCKET_IFNAME"] = self.node.interface
        arguments = {
            "pid": self.node.pid,
            "python": interpreter,
            "env": environment,
            "command": payload.command("{python}", nice=device == "cpu", site=True),
        }
        child = payload.pack(ENTRY, {"device": device})
        packed = payload.pack(LAUNCH, arguments, extra={"child": child})
        running = Running(
            access.transport, payload.command(access.python, nice=False), packed, self._take,
            limits=Limits(line=KEPT_LOG, total=MOST),
        )  # fmt: skip
        try:
            await running.start()
        except TransportError as error:
            self._end(str(error))
            return
        self._running = running
        running.when_over(self._over)
        try:
            await asyncio.wait_for(self._settled.wait(), IMPORT_SECONDS)
        except TimeoutError:
            self.error = f"torch was not imported within {IMPORT_SECONDS:.0f} s"

    def tell(self, command: dict[str, Any]) -> None:
        """Send a round to its local ranks."""
        if self._running is not None:
            self._running.write(json.dumps(command).encode() + b"\n")

    def stop(self) -> None:
        """End it and everything that it started."""
        if self._running is not None:
            self._running.stop()

    def _over(self, status: int) -> None:
        assert self._running is not None
        lines = clean(self.log[-4096:].decode("utf-8", "replace")).strip().split("\n")
        self._end(self._running.said() or lines[-1].strip() or f"ended with status {status}")

    def _end(self, why: str) -> None:
        self.error = self.error or why
        self._settled.set()
        self._on_report(self.node, WorkerReport("gone", why=self.error))

    def _take(self, line: bytes) -> bool:
        """Take a line; one that is no report is the library's own output."""
        if not line.startswith(b'["WorkerReport",'):
            self.log += line + b"\n"
            del self.log[:-KEPT_LOG]
            return False
        report = _report(line)
        if report.kind == "no_torch":
            self.error = report.why
        if report.kind in ("ready", "no_torch"):
            self._settled.set()
        self._on_report(self.node, report)
        return False


def _visible(node: ProbeNode) -> dict[str, str]:
    """Settings that number CUDA's devices as nvidia-smi does, without those that are broken.

    The rank whose environment is borrowed may see its own GPU alone, and CUDA counts the fastest first by itself.
    """
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(map(str, node.gpus))}
