"""What kernels, drivers and services of nodes say in their logs, a row a finding."""

from __future__ import annotations

import re
from typing import Any

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import text_of
from hangtop.diagnosis.finding import Severity
from hangtop.diagnosis.rules.engine import EventRow, Told

DRAIN_GPU = "Drain the node; reset the GPU or restart the node, and check driver and firmware if it comes again."
PROGRAM = "Look in the program first: an index out of bounds, memory that was freed. The GPU is whole, as a rule."
DRAIN_NODE = "Drain the node: its hardware or its kernel failed; see the management controller's log."
_DEAD = re.compile(r"health|assert_var|load_one failed|[Cc](?:omman|m)d timeout|cause a leak|TX timeout")
_SILENT = re.compile(r"transmit queue \d+ timed out|Unit Hang|adapter unexpectedly")


def _dead(event: LogEvent) -> bool:
    return bool(_DEAD.search(text_of(event, "problem")))


def _silent(event: LogEvent) -> bool:
    return bool(_SILENT.search(text_of(event, "problem")))


def _gpu(problem: str, kind: str, summary: str, severity: Severity = "critical", advice: str = DRAIN_GPU) -> EventRow:
    """A problem of a GPU that its driver tells without an Xid: NVIDIA's and AMD's."""
    return EventRow(
        event=Told("kernel.gpu", {"problem": (problem,)}), kind=kind, severity=severity, weight=0.85, scope="gpu",
        other={"problem": "noise"}, summary=f"{{node}}: {summary}", advice=advice,
    )  # fmt: skip


def _machine(problem: str, weight: float, summary: str) -> EventRow:
    """A failure of the machine itself, the surer the nearer to the root: a panic follows from most of the others."""
    return EventRow(
        event=Told("kernel.machine", {"problem": (problem,)}), kind="kernel_trouble", weight=weight,
        scope="node", other={"problem": "noise"}, summary=f"{{node}}: {summary}", advice=DRAIN_NODE,
    )  # fmt: skip


def _switch(kind: str, example: dict[str, Any]) -> EventRow:
    return EventRow(
        event=Told(kind, {"fatal": (True,)}), kind="nvlink_errors", weight=0.9, scope="node", example=example,
        other={"fatal": False}, summary="a fatal error of NVLink or an NVSwitch was reported on {node}",
        advice="Drain the node; restart it and its fabric manager.",
    )  # fmt: skip


ROWS = (
    _gpu("gsp_timeout", "gpu_driver_hung", "the driver waits in vain for {gpu} (its GSP does not answer)"),
    _gpu("locked", "gpu_driver_hung", "{gpu} is probably locked, says the driver"),
    _gpu("needs_reset", "gpu_needs_reset", "{gpu} wants a reset, says the driver"),
    _gpu("init_failed", "gpu_lost", "the driver cannot start {gpu}"),
    _gpu("bad_register", "gpu_lost", "{gpu} does not answer on the bus, says the driver"),
    _gpu("amd_memory", "gpu_ecc", "{gpu} has an uncorrectable hardware error"),
    _gpu("amd_lost", "gpu_lost", "{gpu} is lost"),
    _gpu("amd_reset", "gpu_needs_reset", "{gpu} hangs, and its driver resets it"),
    _gpu("amd_page_fault", "gpu_xid", "a kernel on {gpu} touched an address that is not mapped (page fault)",
         "warning", PROGRAM),
    _machine("memory", 0.88, "its memory has an error that could not be corrected"),
    _machine("machine_check", 0.87, "a CPU reports an error that could not be corrected"),
    _machine("pcie", 0.85, "a PCIe device reports an error that could not be corrected, or was lost"),
    _machine("panic", 0.83, "the kernel panicked"),
    _switch("kernel.sxid", {"code": 12028}),
    _switch("kernel.fabric_manager", {"what": "gpu"}),
    EventRow(
        event=Told("kernel.link"), kind="kernel_trouble", weight=0.8, scope="node", where=_dead,
        example={"device": "mlx5_0", "problem": "health compromised"}, other={"device": "mlx5_0", "up": False},
        summary="{node}: the network adapter {device} does not work ({problem})",
        advice="Drain the node; reset the adapter or restart the node, and look at its firmware and seating.",
    ),
    EventRow(
        event=Told("kernel.link"), kind="kernel_trouble", severity="warning", weight=0.8, scope="node", where=_silent,
        example={"device": "eth0", "problem": "transmit queue 3 timed out"}, other={"device": "eth0", "up": False},
        summary="{node}: the network adapter {device} does not send ({problem})",
        advice="Drain the node; reset the adapter or restart the node, and look at its firmware and seating.",
    ),
    EventRow(
        event=Told("gpu.unseen"), kind="gpu_lost", weight=0.8, example={"error": "Driver/library version mismatch"},
        summary="the driver shows no GPU{on}: NVML says {error}",
        advice="After a mismatch: restart the node, or reload the module. Else look at dmesg for an Xid; in a "
        "container, whether it lost its devices (systemd's daemon-reload does that): start it anew.",
    ),
)  # fmt: skip
