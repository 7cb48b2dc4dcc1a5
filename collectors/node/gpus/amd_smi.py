"""What ``amd-smi`` prints as JSON: for guests and containers in which sysfs does not have the figures.

Formats: ROCm 6 prints a list, an object for each GPU; ROCm 7 an object whose ``gpu_data`` is that list. A figure is
``{"value": 542, "unit": "W"}``, a bare number, or ``"N/A"``; warnings may come before the JSON. ``amd-smi metric``:
usage (gfx_activity, umc_activity), mem_usage (used_vram), temperature (hotspot or edge, mem), power (socket_power),
clock (gfx_0.clk), pcie (width), ecc (total_uncorrectable_count). ``amd-smi process``: process_list of process_info.
GPUs are numbered by their PCI addresses.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional

from collectors.samples.gpus import GpuProcess, GpuSample

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
    hot = _whole(_at(item, "temperature", "hotspot"))
    return GpuSample(
        gpu=item["gpu"], pstate="",
        temperature=_whole(_at(item, "temperature", "edge")) if hot is None else hot,
        memory_temperature=_whole(_at(item, "temperature", "mem")),
        utilization=_whole(_at(item, "usage", "gfx_activity")),
        memory_utilization=_whole(_at(item, "usage", "umc_activity")),
        memory_used=_bytes(_at(item, "mem_usage", "used_vram")), power=_figure(_at(item, "power", "socket_power")),
        sm_clock=_whole(_at(item, "clock", "gfx_0", "clk")), event_reasons=None, pcie_gen=None,
        pcie_width=_whole(_at(item, "pcie", "width")),
        ecc_uncorrected=_whole(_at(item, "ecc", "total_uncorrectable_count")), sram_threshold_exceeded=None,
        remapped_correctable=None, remapped_uncorrectable=None, remap_pending=None, remap_failure=None,
        recovery_action="",
    )  # fmt: skip


def processes(item: Dict[str, Any], bus_id: str) -> List[GpuProcess]:
    """Of one GPU of ``amd-smi process``."""
    found: List[GpuProcess] = []
    listed = item.get("process_list")
    for entry in listed if isinstance(listed, list) else []:
        info = entry.get("process_info") if isinstance(entry, dict) else None
        if isinstance(info, dict) and isinstance(info.get("pid"), int) and 0 < info["pid"] < 1 << 32:
            memory = _bytes(_at(info, "memory_usage", "vram_mem"))
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


def _whole(value: Any) -> Optional[int]:
    number = _figure(value)
    return None if number is None else round(number)


def _bytes(value: Any) -> Optional[int]:
    number = _figure(value)
    unit = value.get("unit", "MB") if isinstance(value, dict) else "MB"
    return None if number is None or unit not in UNITS else int(number * UNITS[unit])


def _word(value: Any) -> str:
    return value[:200] if isinstance(value, str) and value != "N/A" else ""
