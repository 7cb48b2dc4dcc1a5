"""Data that NVML has and nvidia-smi lacks: Xid events as they happen, NVLink errors and traffic, SM share per process.

Runs in a process of its own (see :mod:`collectors.node.gpus.nvml`), because a call into a hung driver never returns;
it imports none of our modules. Output lines are JSON arrays whose first element is the kind:

- ``["xid", time, gpu, bus address, code]``
- ``["link", gpu, link, active, replay, recovery, crc, received, sent]``: errors since the driver was loaded, bytes
- ``["share", bus address, pid, per cent of the SMs]``
- ``["round"]`` ends a round of links and shares; its absence shows a hung driver
- ``["remark", text]`` for a GPU that cannot be read
- ``["trouble", text]`` before it gives up
"""

from __future__ import annotations

import json
import time
from typing import Any, Callable, Dict, List, Optional

PERIOD = 2.0
"""Seconds of a round; the time between reads is spent waiting for events."""
ERRORS = ("DL_REPLAY", "DL_RECOVERY", "DL_CRC_FLIT")
"""Error counters of a link, as NVML names them."""

Write = Callable[[List[object]], None]


class Device:
    """One GPU by its handle."""

    def __init__(self, nvml: Any, index: int) -> None:
        self._nvml = nvml
        self.index = index
        self.handle = nvml.nvmlDeviceGetHandleByIndex(index)
        self.bus_id = address(nvml, self.handle)
        self._links: Optional[int] = None
        """Number of its links; None before the first read."""
        self._seen = 0

    def asked(self, function: str, *arguments: object) -> Any:
        """Result of an NVML function for this GPU; None for an error (an unsupported feature, for example)."""
        try:
            return getattr(self._nvml, function)(self.handle, *arguments)
        except self._nvml.NVMLError:
            return None

    def links(self) -> List[List[object]]:
        """``link`` lines of its links: errors, bytes received and sent (the driver counts KiB)."""
        nvml = self._nvml
        traffic = (nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX)
        lines: List[List[object]] = []
        for link in range(int(nvml.NVML_NVLINK_MAX_LINKS) if self._links is None else self._links):
            active = self.asked("nvmlDeviceGetNvLinkState", link)
            if active is None and self._links is None:
                break  # neither this link nor any further one exists
            if active is None:
                continue
            counters = [getattr(nvml, "NVML_NVLINK_ERROR_" + name) for name in ERRORS]
            errors = [self.asked("nvmlDeviceGetNvLinkErrorCounter", link, counter) for counter in counters]
            values = self.asked("nvmlDeviceGetFieldValues", [(field, link) for field in traffic]) or ()
            moved = [int(value.value.ullVal) << 10 if value.nvmlReturn == 0 else None for value in values]
            lines.append(["link", self.index, link, bool(active), *errors, *(moved or [None, None])])
        self._links = len(lines) if self._links is None else self._links
        return lines

    def shares(self) -> List[List[object]]:
        """``share`` lines of processes that ran kernels since the last round."""
        samples = self.asked("nvmlDeviceGetProcessUtilization", self._seen) or ()  # an error if no kernel ran
        latest: Dict[int, int] = {}
        for sample in sorted(samples, key=lambda sample: int(sample.timeStamp)):
            self._seen = int(sample.timeStamp)
            latest[int(sample.pid)] = int(sample.smUtil)
        return [["share", self.bus_id, pid, share] for pid, share in sorted(latest.items()) if pid]


class Watch:
    """All GPUs of the node."""

    def __init__(self, nvml: Any, write: Write) -> None:
        """Initialize NVML. Raises its errors."""
        self._nvml = nvml
        self._write = write
        nvml.nvmlInit()
        self.devices: List[Device] = []
        for index in range(int(nvml.nvmlDeviceGetCount())):
            try:
                self.devices.append(Device(nvml, index))
            except nvml.NVMLError as error:
                write(["remark", "GPU %d: %s" % (index, error)])
        self._events, xid = nvml.nvmlEventSetCreate(), nvml.nvmlEventTypeXidCriticalError
        self._listening = False
        for device in self.devices:
            if (device.asked("nvmlDeviceGetSupportedEventTypes") or 0) & xid:
                device.asked("nvmlDeviceRegisterEvents", xid, self._events)
                self._listening = True

    def round(self) -> None:
        """Read all GPUs once, then wait for events until the next round is due."""
        for device in self.devices:
            for line in device.links() + device.shares():
                self._write(line)
        self._write(["round"])
        until = time.monotonic() + PERIOD
        while time.monotonic() < until:
            self._await_event(until - time.monotonic())

    def _await_event(self, seconds: float) -> None:
        nvml = self._nvml
        try:
            event = nvml.nvmlEventSetWait_v2(self._events, max(1, int(seconds * 1000))) if self._listening else None
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_TIMEOUT:
                return
            event = None  # with a lost GPU every wait fails at once
        if event is None:
            time.sleep(max(0.0, seconds))
        elif event.eventType & nvml.nvmlEventTypeXidCriticalError:
            try:
                bus_id = address(nvml, event.device)
            except nvml.NVMLError:
                bus_id = ""
            gpu = next((device.index for device in self.devices if device.bus_id == bus_id), None)
            self._write(["xid", time.time(), gpu, bus_id, int(event.eventData)])


def address(nvml: Any, handle: Any) -> str:
    """PCI address of a GPU; old bindings return bytes."""
    bus = nvml.nvmlDeviceGetPciInfo(handle).busId
    return (bus.decode("ascii", "replace") if isinstance(bus, bytes) else str(bus)).lower()


def main(nvml: Any, write: Optional[Write] = None, rounds: float = float("inf")) -> None:
    """Watch for ``rounds`` rounds (default: forever) and write lines to standard output."""
    say: Write = write or (lambda line: print(json.dumps(line), flush=True))  # noqa: T201 (its way out)
    try:
        watch = Watch(nvml, say)
    except nvml.NVMLError as error:
        say(["trouble", str(error)])
        return
    while rounds > 0:
        watch.round()
        rounds -= 1
