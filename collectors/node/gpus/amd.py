"""AMD's GPUs, in the same samples as NVIDIA's: by sysfs, and by ``amd-smi`` where that tells no use.

amd-smi serves guests and containers in which sysfs does not have the figures. ROCm 6 prints a list, an object for each
GPU; ROCm 7 an object whose ``gpu_data`` is that list. A figure is ``{"value": 542, "unit": "W"}``, a bare number, or
``"N/A"``; warnings may come before the JSON. ``amd-smi metric``: usage (gfx_activity, umc_activity), mem_usage
(used_vram), temperature (hotspot or edge, mem), power (socket_power), clock (gfx_0.clk), pcie (width), ecc
(total_uncorrectable_count). ``amd-smi process``: process_list of process_info. GPUs are numbered by PCI address.
"""

from __future__ import annotations

import json
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

from collectors.node.child import ChildEnded, Query, find
from collectors.node.files import text
from collectors.node.gpus import amd_sysfs
from collectors.node.shared import Shared
from collectors.samples.gpus import GpuFault, GpuProcess, GpuProcesses, GpuSample
from collectors.samples.stream import Fault

RESCAN = 30.0
"""Seconds between two looks for new GPUs, and at what does not move."""
APPS_PERIOD = 5.0
"""Seconds between two looks at who computes."""
SMI_PERIOD = 5.0
"""amd-smi is a Python program that takes a second of a core: not oftener."""
PATIENCE = 30.0
"""Seconds that one tool may take."""
PLACES = ("/opt/rocm/bin",)
"""Where it lies beside the usual folders."""


class AmdGpus:
    """GPUs of one node."""

    def __init__(self, shared: Shared, proc: str, sys: str) -> None:
        self._shared = shared
        self._proc = proc
        self._sys = sys
        self._cards: List[amd_sysfs.AmdCard] = []
        self._faults: Dict[int, str] = {}
        self._scanned = self._apps = float("-inf")
        self._rescanned = False
        self._tool: Optional[_AmdSmi] = None

    def there(self) -> bool:
        """True where the node has such GPUs."""
        moment = time.monotonic()
        if moment - self._scanned > RESCAN:
            self._scanned, self._rescanned = moment, True
            found = amd_sysfs.cards(self._sys)
            # One that is gone from sysfs stays: that it does not answer any more is what counts.
            if {card.bus_id for card in found} - {card.bus_id for card in self._cards}:
                self._cards = found
        return bool(self._cards)

    def look(self) -> Iterator[NamedTuple]:
        """Rows of all GPUs, and who is on them."""
        moment = time.monotonic()
        rescanned, self._rescanned = self._rescanned, False
        lacking = False
        for card in self._cards:
            try:
                row = amd_sysfs.sample(card)
            except (OSError, ValueError) as error:
                why = amd_sysfs.why_not(error) if isinstance(error, OSError) else "amdgpu: no figure of its memory"
                if self._faults.get(card.gpu) != why:
                    self._faults[card.gpu] = why
                    yield GpuFault(card.gpu, card.bus_id, why)
                continue
            if self._faults.pop(card.gpu, ""):
                yield GpuFault(card.gpu, card.bus_id, "")
            if rescanned:
                yield amd_sysfs.facts(card, self._sys)
            lacking = lacking or row.utilization is None
            if row.utilization is not None:
                yield row
        if lacking:
            yield from self._by_tool(moment)
        elif moment - self._apps > APPS_PERIOD:
            self._apps = moment
            yield self._told(list(amd_sysfs.processes(self._sys, self._proc)))

    def _told(self, processes: List[GpuProcess]) -> GpuProcesses:
        self._shared.computing = frozenset(process.pid for process in processes)
        return GpuProcesses(processes)

    def _by_tool(self, moment: float) -> Iterator[NamedTuple]:
        if self._tool is None:
            path = find("amd-smi", PLACES)
            if path is None:
                yield Fault("gpus", "the driver tells no use of AMD's GPUs, and there is no amd-smi", 1)
                return
            self._tool = _AmdSmi(path, {card.gpu: card.bus_id for card in self._cards})
        for sample in self._tool.look(moment):
            yield self._told(sample.processes) if isinstance(sample, GpuProcesses) else sample

    def close(self) -> None:
        """End what runs."""
        if self._tool is not None:
            self._tool.close()


class _AmdSmi:
    """amd-smi, asked again and again, one question at a time."""

    def __init__(self, path: str, buses: Dict[int, str]) -> None:
        self._buses = buses
        self._due = float("-inf")
        self._metric = Query([path, "metric", "--json"], patience=PATIENCE)
        self._process = Query([path, "process", "--json"], patience=PATIENCE)

    def look(self, moment: float) -> Iterator[NamedTuple]:
        """What its answers say that have come."""
        for query, samples in ((self._metric, self._rows), (self._process, self._who)):
            ended = query.answer()
            if ended is not None:
                yield from samples(ended)
        if moment - self._due > SMI_PERIOD and not self._metric.waits and not self._process.waits:
            self._due = moment
            self._metric.ask()
            self._process.ask()

    def _rows(self, ended: ChildEnded) -> Iterator[NamedTuple]:
        rows = [sample(item) for item in items(text(ended.stdout))]
        if not rows:
            said = (text(ended.stderr) or text(ended.stdout)).strip()[:200] or "status %s" % ended.status
            yield Fault("gpus", "amd-smi gave no figures: %s" % said, 1)
        yield from rows

    def _who(self, ended: ChildEnded) -> Iterator[NamedTuple]:
        listed = items(text(ended.stdout))
        yield GpuProcesses([
            process for item in listed if item["gpu"] in self._buses
            for process in processes(item, self._buses[item["gpu"]])
        ])  # fmt: skip

    def close(self) -> None:
        """Forget the questions."""
        self._metric.close()
        self._process.close()


UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
"""amd-smi's megabytes are binary ones."""
_MOST_GPUS = 1024


def items(said: str) -> List[Dict[str, Any]]:
    """One object for each GPU; none where there is no such JSON."""
    starts = [at for at in (said.find("["), said.find("{")) if at >= 0]
    try:
        document = json.loads(said[min(starts) :]) if starts else []
    except (ValueError, RecursionError):
        return []
    listed = document.get("gpu_data", []) if isinstance(document, dict) else document
    return [
        item for item in (listed if isinstance(listed, list) else [])
        if isinstance(item, dict) and isinstance(item.get("gpu"), int) and 0 <= item["gpu"] < _MOST_GPUS
    ]  # fmt: skip


def sample(item: Dict[str, Any]) -> GpuSample:
    """Of one GPU of ``amd-smi metric``."""
    hot = _whole(item, "temperature", "hotspot")
    return amd_sysfs.UNKNOWN._replace(
        gpu=item["gpu"],
        temperature=_whole(item, "temperature", "edge") if hot is None else hot,
        memory_temperature=_whole(item, "temperature", "mem"),
        utilization=_whole(item, "usage", "gfx_activity"),
        memory_utilization=_whole(item, "usage", "umc_activity"),
        memory_used=_bytes(item, "mem_usage", "used_vram"),
        power=_figure(_at(item, "power", "socket_power")),
        sm_clock=_whole(item, "clock", "gfx_0", "clk"),
        pcie_width=_whole(item, "pcie", "width"),
        ecc_uncorrected=_whole(item, "ecc", "total_uncorrectable_count"),
    )


def processes(item: Dict[str, Any], bus_id: str) -> List[GpuProcess]:
    """Of one GPU of ``amd-smi process``."""
    found: List[GpuProcess] = []
    listed = item.get("process_list")
    for entry in listed if isinstance(listed, list) else []:
        info = entry.get("process_info") if isinstance(entry, dict) else None
        if isinstance(info, dict) and isinstance(info.get("pid"), int) and 0 < info["pid"] < 1 << 32:
            memory = _bytes(info, "memory_usage", "vram_mem")
            found.append(GpuProcess(bus_id, info["pid"], memory, None, _word(info.get("name"))))
    return found


def _at(item: Dict[str, Any], *names: str) -> Any:
    value: Any = item
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _figure(value: Any) -> Optional[float]:
    number = value.get("value") if isinstance(value, dict) else value
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number < 1 << 53:
        return None
    return float(number)


def _whole(item: Dict[str, Any], *names: str) -> Optional[int]:
    number = _figure(_at(item, *names))
    return None if number is None else round(number)


def _bytes(item: Dict[str, Any], *names: str) -> Optional[int]:
    value = _at(item, *names)
    number = _figure(value)
    unit = value.get("unit", "MB") if isinstance(value, dict) else "MB"
    return None if number is None or unit not in UNITS else int(number * UNITS[unit])


def _word(value: Any) -> str:
    return value[:200] if isinstance(value, str) and value != "N/A" else ""
