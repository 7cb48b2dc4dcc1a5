"""What NVML can say and nvidia-smi cannot: Xid events as they happen, NVLink errors and traffic, SM share per process.

Runs in a process of its own (see :mod:`collectors.node.gpus.nvml`): a call into a wedged driver never returns. So it
imports nothing of ours. Lines out are JSON arrays, the first element the kind:

- ``["xid", time, gpu, bus address, code]``
- ``["link", gpu, link, active, replay, recovery, crc, received, sent]``: errors since the driver was loaded, bytes
- ``["share", bus address, pid, per cent of the SMs]``
- ``["round"]`` ends a round of links and shares, so that silence shows
- ``["remark", text]`` for what it has to do without
- ``["trouble", text]`` before it gives up
"""

from __future__ import annotations

import json
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

PERIOD = 2.0
"""Seconds of a round: events are waited for in between."""
ERRORS = ("DL_REPLAY", "DL_RECOVERY", "DL_CRC_FLIT")
"""Error counters of a link, as NVML names them."""

Write = Callable[[List[object]], None]


class Device:
    """One GPU by its handle."""

    def __init__(self, nvml: Any, index: int) -> None:
        self._nvml = nvml
        self.index = index
        self.handle = nvml.nvmlDeviceGetHandleByIndex(index)
        bus = nvml.nvmlDeviceGetPciInfo(self.handle).busId
        self.bus_id: str = (bus.decode("ascii", "replace") if isinstance(bus, bytes) else str(bus)).lower()
        self._links = self._find_links()
        self._seen = 0

    def _find_links(self) -> List[int]:
        found: List[int] = []
        for link in range(int(self._nvml.NVML_NVLINK_MAX_LINKS)):
            try:
                self._nvml.nvmlDeviceGetNvLinkState(self.handle, link)
            except self._nvml.NVMLError:
                break  # no such link, nor any further one
            found.append(link)
        return found

    def register(self, events: Any) -> bool:
        """Ask for its Xid events; False when it cannot give them."""
        nvml = self._nvml
        try:
            if not nvml.nvmlDeviceGetSupportedEventTypes(self.handle) & nvml.nvmlEventTypeXidCriticalError:
                return False
            nvml.nvmlDeviceRegisterEvents(self.handle, nvml.nvmlEventTypeXidCriticalError, events)
        except nvml.NVMLError:
            return False
        return True

    def links(self) -> List[List[object]]:
        """Lines of its links."""
        lines: List[List[object]] = []
        for link in self._links:
            try:
                active = bool(self._nvml.nvmlDeviceGetNvLinkState(self.handle, link))
            except self._nvml.NVMLError:
                continue
            errors = [self._error(link, "NVML_NVLINK_ERROR_" + name) for name in ERRORS]
            lines.append(["link", self.index, link, active, *errors, *self._traffic(link)])
        return lines

    def _error(self, link: int, name: str) -> Optional[int]:
        try:
            return int(self._nvml.nvmlDeviceGetNvLinkErrorCounter(self.handle, link, getattr(self._nvml, name)))
        except self._nvml.NVMLError:
            return None

    def _traffic(self, link: int) -> Tuple[Optional[int], Optional[int]]:
        """Bytes received and sent; the driver counts KiB."""
        nvml = self._nvml
        wanted = (nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX)
        try:
            values = nvml.nvmlDeviceGetFieldValues(self.handle, [(field, link) for field in wanted])
        except nvml.NVMLError:
            return None, None
        received, sent = (int(value.value.ullVal) << 10 if value.nvmlReturn == 0 else None for value in values)
        return received, sent

    def shares(self) -> List[List[object]]:
        """Lines of the processes that ran kernels since the last round."""
        try:
            samples = self._nvml.nvmlDeviceGetProcessUtilization(self.handle, self._seen)
        except self._nvml.NVMLError:
            return []  # "not found" is how it says that nobody ran anything
        latest: Dict[int, Tuple[int, int]] = {}
        for sample in samples:
            stamp = int(sample.timeStamp)
            self._seen = max(self._seen, stamp)
            if sample.pid and stamp >= latest.get(int(sample.pid), (0, 0))[0]:
                latest[int(sample.pid)] = stamp, int(sample.smUtil)
        return [["share", self.bus_id, pid, share] for pid, (_, share) in sorted(latest.items())]


class Watch:
    """All GPUs of the node."""

    def __init__(self, nvml: Any, write: Write) -> None:
        """Start NVML; its errors go to the caller."""
        self._nvml = nvml
        self._write = write
        nvml.nvmlInit()
        self.devices: List[Device] = []
        for index in range(int(nvml.nvmlDeviceGetCount())):
            try:
                self.devices.append(Device(nvml, index))
            except nvml.NVMLError as error:
                write(["remark", "GPU %d: %s" % (index, error)])
        self._events = nvml.nvmlEventSetCreate()
        self._listening = sum(device.register(self._events) for device in self.devices)

    def round(self) -> None:
        """One look at everything, then wait for events until the next is due."""
        for device in self.devices:
            for line in device.links() + device.shares():
                self._write(line)
        self._write(["round"])
        until = time.monotonic() + PERIOD
        left = PERIOD
        while left > 0:
            self._await_event(left)
            left = until - time.monotonic()

    def _await_event(self, seconds: float) -> None:
        if not self._listening:
            time.sleep(seconds)
            return
        nvml = self._nvml
        try:
            event = nvml.nvmlEventSetWait_v2(self._events, max(1, int(seconds * 1000)))
        except nvml.NVMLError as error:
            if error.value != nvml.NVML_ERROR_TIMEOUT:
                time.sleep(seconds)  # a GPU that is lost makes every wait fail at once
            return
        if event.eventType & nvml.nvmlEventTypeXidCriticalError:
            self._write(["xid", time.time(), *self._whose(event.device), int(event.eventData)])

    def _whose(self, handle: Any) -> Tuple[Optional[int], str]:
        """Index and address of the GPU of an event."""
        try:
            bus = self._nvml.nvmlDeviceGetPciInfo(handle).busId
        except self._nvml.NVMLError:
            return None, ""
        address = (bus.decode("ascii", "replace") if isinstance(bus, bytes) else str(bus)).lower()
        return next((device.index for device in self.devices if device.bus_id == address), None), address


def main(nvml: Any, write: Optional[Write] = None, rounds: Optional[int] = None) -> None:
    """Watch for ever, or for some rounds, and write lines to standard output."""
    say: Write = write or (lambda line: print(json.dumps(line), flush=True))  # noqa: T201 (its way out)
    try:
        watch = Watch(nvml, say)
    except nvml.NVMLError as error:
        say(["trouble", str(error)])
        return
    done = 0
    while rounds is None or done < rounds:
        watch.round()
        done += 1
