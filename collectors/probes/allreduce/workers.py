"""The probe's processes on the nodes, seen from this machine: start, commands, reports."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from collectors.fleet import payload
from collectors.fleet.clean import clean
from collectors.fleet.transport import Transport, TransportError
from collectors.probes.allreduce.plan import ProbeNode, ProbePlan
from collectors.probes.running import Limits, Running

ENTRY = "collectors.probes.remote.allreduce"
KEPT_LOG, MOST = 1 << 20, 1 << 30
"""Bytes of a worker's other output (NCCL's log among it) that are kept, and that are read."""
NCCL_LOG = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV", "NCCL_DEBUG_FILE": "/dev/stdout"}
"""NCCL tells its way in the worker's own output; the name of the file is said so that no nccl.conf says another."""

Text = Annotated[str, Meta(max_length=4096)]
Rank = Annotated[int, Meta(ge=0, le=1 << 24)]
Ranks = Annotated[list[Rank], Meta(max_length=65536)]
Count = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Seconds = Annotated[float, Meta(ge=0.0, le=1e9)]


class WorkerReport(msgspec.Struct, frozen=True):
    """A line of a worker (``remote/allreduce.py``); each kind has some of the fields."""

    kind: Literal["no_torch", "ready", "store", "absent", "latency", "figure", "failed", "done", "gone"]
    """``gone``: the worker has ended; said here, by no worker."""
    id: Count = 0
    """Number of the round."""
    rank: Rank = 0
    ranks: Ranks = msgspec.field(default_factory=list)
    """Absent ones."""
    why: Text = ""
    nccl: Text = ""
    """Version of torch's own NCCL."""
    port: Annotated[int, Meta(ge=1, le=65535)] = 1
    size: Annotated[int, Meta(ge=0, le=1 << 50)] = 0
    """Bytes."""
    seconds: Seconds = 0.0
    wrong: Ranks = msgspec.field(default_factory=list)


_decode = msgspec.json.Decoder(WorkerReport).decode


def read_report(line: bytes) -> WorkerReport | None:
    """The report in a line; None for one that no worker writes."""
    if not line.startswith(b'{"kind"'):
        return None
    try:
        found = _decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return msgspec.structs.replace(found, why=clean(found.why), nccl=clean(found.nccl))


class Worker:
    """One node's worker: reports go to ``on_report`` as they come."""

    def __init__(self, node: ProbeNode, on_report: Callable[[ProbeNode, WorkerReport], None]) -> None:
        self.node = node
        self.error = ""
        self.log = bytearray()
        """What is no report: NCCL's log, warnings, a traceback."""
        self.settled = asyncio.Event()
        """torch is imported there, or it is known why not."""
        self._on_report = on_report
        self._running: Running | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self, transport: Transport | None, plan: ProbePlan, python: str) -> None:
        """Start it and wait until it is ready; an error is kept in ``error``, since one node is not the whole."""
        if transport is None:
            self.error = "no connection to this node"
            return
        device = "cuda" if plan.backend == "nccl" else "cpu"
        environment = {**NCCL_LOG, **_visible(self.node)} if device == "cuda" else {}
        if self.node.interface:
            environment["NCCL_SOCKET_IFNAME" if device == "cuda" else "GLOO_SOCKET_IFNAME"] = self.node.interface
        arguments = {
            "pid": self.node.pid,
            "python": plan.python,
            "env": environment,
            "command": payload.command("{python}", nice=device == "cpu", site=True),
        }
        child = payload.pack(ENTRY, {"device": device})
        packed = payload.pack("collectors.node.processes.launch", arguments, extra={"child": child})
        running = Running(
            transport, payload.command(python, nice=False), packed, self._take,
            limits=Limits(line=KEPT_LOG, total=MOST),
        )  # fmt: skip
        try:
            await running.start()
        except TransportError as error:
            self._end(str(error))
            return
        self._running = running
        self._watching = asyncio.create_task(self._watch(running))
        try:
            await asyncio.wait_for(self.settled.wait(), plan.import_time)
        except TimeoutError:
            self.error = f"torch was not imported within {plan.import_time:.0f} s"

    def tell(self, command: dict[str, Any]) -> None:
        """Send a round to its local ranks."""
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

    async def _watch(self, running: Running) -> None:
        status = await running.ended()
        lines = clean(self.log[-4096:].decode("utf-8", "replace")).strip().split("\n")
        self._end(running.said() or lines[-1].strip() or f"ended with status {status}")

    def _end(self, why: str) -> None:
        self.error = self.error or why
        self.settled.set()
        self._on_report(self.node, WorkerReport("gone", why=self.error))

    def _take(self, line: bytes) -> bool:
        """Take a line; one that is no report is the library's own output."""
        report = read_report(line)
        if report is None:
            self.log += line + b"\n"
            del self.log[:-KEPT_LOG]
            return False
        if report.kind == "no_torch":
            self.error = report.why
        if report.kind in ("ready", "no_torch"):
            self.settled.set()
        self._on_report(self.node, report)
        return False


def _visible(node: ProbeNode) -> dict[str, str]:
    """Settings that number CUDA's devices as nvidia-smi does, without those that are broken.

    The rank whose environment is borrowed may see its own GPU alone, and CUDA counts the fastest first by itself.
    """
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(map(str, node.gpus))}
