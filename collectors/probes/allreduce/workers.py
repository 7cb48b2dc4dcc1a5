"""The probe's processes on the nodes, seen from this machine: start, commands, reports."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any

from collectors.fleet import payload
from collectors.fleet.clean import clean
from collectors.fleet.transport import Transport, TransportError
from collectors.probes.allreduce import reports
from collectors.probes.allreduce.plan import ProbeNode, ProbePlan
from collectors.probes.running import Limits, Running

KEPT_LOG = 1 << 20
"""Bytes of a worker's other output (NCCL's log among it) that are kept, …"""
MOST = 1 << 30
"""… and that are read."""

NCCL_LOG = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV", "NCCL_DEBUG_FILE": "/dev/stdout"}
"""NCCL tells its way in the worker's own output; the name of the file is said so that no nccl.conf says another."""

_WORKER_MODULES = ("collectors.probes.allreduce.remote",)


def launch_command(python: str = "python3") -> list[str]:
    """Words that run on a node; what follows them comes through standard input."""
    return payload.command(python, nice=False)


class Worker:
    """One node's worker: reports go to ``on_report`` as they come."""

    def __init__(self, node: ProbeNode, on_report: Callable[[ProbeNode, reports.WorkerReport], None]) -> None:
        self.node = node
        self.error = ""
        self.log = bytearray()
        """What is no report: NCCL's log, warnings, a traceback."""
        self.ended = asyncio.Event()
        self._on_report = on_report
        self._running: Running | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self, transport: Transport, plan: ProbePlan, python: str) -> None:
        """Start it; an error is kept in ``error`` rather than raised, since one node is not the whole."""
        device = "cuda" if plan.backend == "nccl" else "cpu"
        child = payload.pack(
            "collectors.probes.allreduce.remote.worker",
            {"locals": plan.locals_of(self.node), "device": device},
            modules=_WORKER_MODULES,
        )
        environment = {**NCCL_LOG, **_visible(self.node)} if device == "cuda" else {}
        if self.node.interface:
            environment["NCCL_SOCKET_IFNAME" if device == "cuda" else "GLOO_SOCKET_IFNAME"] = self.node.interface
        arguments = {
            "pid": self.node.pid,
            "python": plan.python,
            "env": environment,
            "command": payload.command("{python}", nice=device == "cpu", site=True),
        }
        packed = payload.pack("collectors.node.processes.launch", arguments, extra={"child": child})
        running = Running(
            transport, launch_command(python), packed, self._take, limits=Limits(line=KEPT_LOG, total=MOST)
        )
        try:
            await running.start()
        except TransportError as error:
            self._end(str(error))
            return
        self._running = running
        self._watching = asyncio.create_task(self._watch(running))

    def tell(self, command: dict[str, Any]) -> None:
        """Send a command to its local ranks."""
        if self._running is not None:
            self._running.write(json.dumps(command).encode() + b"\n")

    async def stop(self) -> None:
        """End it and everything that it started."""
        if self._watching is not None:
            self._watching.cancel()
        if self._running is not None:
            self._running.stop()
        if self._watching is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching

    def last_words(self) -> str:
        """Last line of its other output: usually why it ended."""
        said = self._running.said() if self._running is not None else ""
        lines = [line for line in clean(self.log[-4096:].decode("utf-8", "replace")).split("\n") if line.strip()]
        return said or (lines[-1].strip() if lines else "")

    async def _watch(self, running: Running) -> None:
        status = await running.ended()
        self._end(self.last_words() or f"ended with status {status}")

    def _end(self, why: str) -> None:
        self.error = self.error or why
        self.ended.set()
        self._on_report(self.node, reports.Gone(why=self.error))

    def _keep(self, data: bytes) -> None:
        self.log += data
        del self.log[:-KEPT_LOG]

    def _take(self, line: bytes) -> bool:
        """Take a line; one that is no report is the library's own output."""
        report = reports.read(line)
        if report is None:
            self._keep(line + b"\n")
        else:
            self._on_report(self.node, report)
        return False


def _visible(node: ProbeNode) -> dict[str, str]:
    """Settings that number CUDA's devices as nvidia-smi does, without those that are broken.

    The rank whose environment is borrowed may see its own GPU alone, and CUDA counts the fastest first by itself.
    """
    numbers = ",".join(map(str, node.gpu_numbers))
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": numbers} if numbers else {}
