"""The probe's process on a node, from this machine: start, commands, reports."""

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
"""Most bytes of a worker's other output (NCCL's log included) that are kept, and that are read."""
IMPORT_SECONDS = 60.0
"""Time for the import of torch from a cold file system."""
NCCL_LOG = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV", "NCCL_DEBUG_FILE": "/dev/stdout"}
"""NCCL logs its network to the worker's output. The name of the file overrides any nccl.conf and makes NCCL write line
by line."""

_report = answer(WorkerReport)


@dataclass(frozen=True, slots=True)
class ProbeNode:
    """One node that takes part."""

    name: str
    address: str
    """Address at which the other nodes reach its store."""
    interface: str = ""
    """Interface for gloo and NCCL; empty: their own choice."""
    pid: int | None = None
    """PID of a rank of the job whose interpreter and environment the probe uses."""
    gpus: tuple[int, ...] = ()
    """Indices of its GPUs in nvidia-smi; with nccl, each GPU has one rank."""

    @property
    def ranks(self) -> int:
        """Ranks on this node."""
        return max(1, len(self.gpus))


class Worker:
    """One node's worker: each report goes to ``on_report`` on arrival."""

    def __init__(self, node: ProbeNode, on_report: Callable[[ProbeNode, WorkerReport], None]) -> None:
        self.node = node
        self.error = ""
        self.log = bytearray()
        """Output that is no report: NCCL's log, warnings, a traceback."""
        self._settled = asyncio.Event()
        """Set once torch is imported there, or the reason why not is known."""
        self._on_report = on_report
        self._running: Running | None = None

    async def start(self, access: NodeAccess | None, backend: str, interpreter: str) -> None:
        """Start it and wait until it is ready; ``error`` keeps an error, because the other nodes can still measure."""
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
            access.transport, payload.command(access.transport.python, nice=False), packed, self._take,
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

    def send(self, command: dict[str, Any]) -> None:
        """Send a round to its local ranks."""
        if self._running is not None:
            self._running.write(json.dumps(command).encode() + b"\n")

    def stop(self) -> None:
        """End the worker and its children."""
        if self._running is not None:
            self._running.stop()

    def _over(self, status: int) -> None:
        assert self._running is not None
        lines = clean(self.log[-4096:].decode("utf-8", "replace")).strip().split("\n")
        self._end(self._running.last_error() or lines[-1].strip() or f"ended with status {status}")

    def _end(self, why: str) -> None:
        self.error = self.error or why
        self._settled.set()
        self._on_report(self.node, WorkerReport("gone", why=self.error))

    def _take(self, line: bytes) -> bool:
        """Take a line: a report, or output of a library."""
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
    """Settings with which CUDA numbers devices as nvidia-smi does, and leaves out broken devices.

    The rank whose environment is used may see only its own GPU, and by default CUDA puts the fastest GPU first.
    """
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(map(str, node.gpus))}
