"""Saved output of nvidia-smi in any of its formats: the table, ``-q``, CSV with its header, ``-L``; and as JSON.

nvidia-smi itself writes no JSON, but tools around it do, under the names of its own columns (``gpustat --json``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from collectors.formats import BadFormat
from collectors.formats.loose import Loose, document, items, mapping
from collectors.node.gpus.nvidia_smi import GONE, NAMES, SmiRow, build_app, build_row, device_line
from collectors.samples.gpus import GpuFault, GpuProcess

Path = tuple[str, ...]

_TROUBLE = re.compile(
    GONE.pattern + r"|No devices were found|has failed because|Failed to initialize NVML", re.IGNORECASE
)


class Saved(NamedTuple):
    """What one saved output tells. ``form`` is ``table``, ``query``, ``csv``, ``json`` or ``list``; empty for none."""

    form: str
    rows: list[SmiRow]
    faults: list[GpuFault]
    apps: list[GpuProcess]


def looks_like(head: str) -> bool:
    """Whether a text that begins so may be nvidia-smi's."""
    if "NVSMI LOG" in head or ("NVIDIA-SMI" in head and ("+--" in head or "failed" in head)):
        return True
    first = head.lstrip("\n").split("\n", 1)[0]
    if _header(first) is not None or _APPS.match(first) or _LISTED.match(head) or _TROUBLE.match(first):
        return True
    return head.lstrip()[:1] in ("{", "[") and '"memory.used"' in head and '"utilization.gpu"' in head


def read(text: str) -> Saved:
    """Recognise and read saved output; text of another kind gives a :class:`Saved` without a form."""
    faults = [device_line(line) for line in text.splitlines() if _TROUBLE.search(line) and not line.startswith("|")]
    if "NVSMI LOG" in text and re.search(r"^GPU [0-9A-Fa-f:.]+$", text, re.MULTILINE):
        rows, apps = _query(text)
        return Saved("query", rows, faults, apps)
    if "NVIDIA-SMI" in text and "Driver Version" in text:
        rows, apps = _table(text)
        return Saved("table", rows, [*faults, *_silent(text)], apps)
    listed = list(map(build_row, _listed(text)))
    if listed:
        return Saved("list", [row for row in listed if row is not None], faults, [])
    if text.lstrip()[:1] in ("{", "["):
        rows, apps = _json(text)
        return Saved("json" if rows or apps else "", rows, faults if rows or apps else [], apps)
    apps = _saved_apps(text)
    rows, others = ([], []) if apps else _saved_rows(text)
    if rows or apps:
        return Saved("csv", rows, others, apps)
    return Saved("list" if faults else "", [], faults, [])


# --- CSV with a header ------------------------------------------------------------------------------------------------

_APP_NAMES = {"used_memory": "used_gpu_memory", "name": "process_name"}


def _header(line: str) -> list[str] | None:
    """Our names of the columns of a saved CSV's first line (``""`` for one that is not ours); None when it is none."""
    names = [cell.strip().partition(" [")[0] for cell in line.split(",")]
    keys = [NAMES.get(name, "") for name in names]
    return keys if sum(map(bool, keys)) >= 2 and not any(cell.isdigit() for cell in names) else None


def _saved_rows(text: str) -> tuple[list[SmiRow], list[GpuFault]]:
    """Rows of a saved ``--query-gpu=… --format=csv`` with its header, and its other lines as faults.

    A query without ``index`` is numbered in the order in which bus addresses (or else names) first appear.
    """
    keys: list[str] | None = None
    rows: list[SmiRow] = []
    faults: list[GpuFault] = []
    order: list[str] = []
    for line in text.splitlines():
        if keys is None:
            keys = _header(line)
            continue
        if not line.strip() or _header(line) is not None:
            continue
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(keys):
            faults.append(device_line(line))
            continue
        named = {key: cell for key, cell in zip(keys, cells, strict=True) if key}
        if "index" not in named:
            label = named.get("uuid") or named.get("bus_id") or str(len(rows))
            if label not in order:
                order.append(label)
            named["index"] = str(order.index(label))
        row = build_row(named)
        if row is None:
            faults.append(device_line(line))
        else:
            rows.append(row)
    return rows, faults


def _saved_apps(text: str) -> list[GpuProcess]:
    """Processes of a saved ``--query-compute-apps=… --format=csv`` with its header."""
    names: list[str] = []
    apps: list[GpuProcess] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",", max(0, len(names) - 1) if names else -1)]
        if "pid" in cells:
            titles = [cell.partition(" [")[0] for cell in cells]
            names = [_APP_NAMES.get(title, title) for title in titles]
        elif len(cells) == len(names):
            app = build_app(dict(zip(names, cells, strict=True)))
            apps += [app] if app is not None else []
    return apps


# --- short forms -------------------------------------------------------------------------------------------------

_LISTED = re.compile(r"^GPU (\d{1,4}): (.{1,200}?) \(UUID: ([\w-]{1,80})\)\s*$", re.MULTILINE)
_APPS = re.compile(r"(?=.*\b(?:used_gpu_memory|gpu_bus_id|gpu_uuid|process_name)\b)(?:[\w .\[\]]+,)* *pid\b")


def _json(text: str) -> tuple[list[SmiRow], list[GpuProcess]]:
    try:
        whole = document(text.encode("utf-8", "replace"))
    except BadFormat:
        return [], []
    listed = whole if isinstance(whole, list) else mapping(whole).get("gpus")
    rows, apps = [], []
    for gpu in (mapping(each) for each in items(listed, 4096)):
        row = build_row({NAMES[name]: _cell(value) for name, value in gpu.items() if name in NAMES})
        if row is not None:
            rows.append(row)
            apps += list(_json_apps(gpu, row))
    return rows, apps


def _cell(value: object) -> str:
    return "N/A" if value is None else str(value)


def _json_apps(gpu: Loose, row: SmiRow) -> Iterator[GpuProcess]:
    for process in (mapping(each) for each in items(gpu.get("processes"), 4096)):
        cells = {
            "gpu_bus_id": row.facts.bus_id,
            "pid": _cell(process.get("pid")),
            "used_gpu_memory": _cell(process.get("gpu_memory_usage")),
            "process_name": _cell(process.get("command")),
        }
        app = build_app(cells)
        if app is not None:
            yield app


def _listed(text: str) -> Iterator[dict[str, str]]:
    for found in _LISTED.finditer(text):
        yield {"index": found.group(1), "name": found.group(2), "uuid": found.group(3)}


# --- the table ---------------------------------------------------------------------------------------------------

_FIRST = re.compile(
    r"\|\s{1,8}(?P<index>\d{1,4})\s{1,8}(?P<name>\S.{0,60}?)\s{1,40}(?:On|Off|N/A)\s{0,8}"
    r"\|\s{0,16}(?P<bus_id>[0-9A-Fa-f:.]{10,16})\s{1,8}\S{1,8}\s{0,8}\|\s{0,40}(?P<ecc>\S{1,16})\s{0,8}\|"
)
_SECOND = re.compile(
    r"\|\s{0,8}\S{1,6}\s{1,16}(?P<temperature>\S{1,8})\s{1,16}(?P<pstate>\S{1,6})\s{1,40}"
    r"(?P<power>\S{1,10})\s{0,4}/\s{0,4}(?P<limit>\S{1,10})\s{0,8}"
    r"\|\s{0,24}(?P<used>\S{1,16})\s{0,4}/\s{0,12}(?P<total>\S{1,16})\s{0,8}\|\s{0,24}(?P<utilization>\S{1,8})\s"
)
_PROCESS = re.compile(
    r"\|\s{1,8}(?P<index>\d{1,4})\s{1,12}(?:\S{1,6}\s{1,8}\S{1,6}\s{1,24})?(?P<pid>\d{1,10})\s{1,12}[CGM+]{1,5}\s{1,8}"
    r"(?P<name>\S.{0,80}?)\s{1,80}(?P<memory>\S{1,16})\s{1,4}\|"
)


def _table(text: str) -> tuple[list[SmiRow], list[GpuProcess]]:
    driver = re.search(r"Driver Version: ([\w.]{1,32})", text)
    gpus: dict[str, dict[str, str]] = {}
    apps: list[GpuProcess] = []
    current: dict[str, str] | None = None
    for line in text.splitlines():
        first, second, process = _FIRST.match(line), _SECOND.match(line), _PROCESS.match(line)
        if first:
            current = gpus[first.group("index")] = {
                "index": first.group("index"),
                "name": first.group("name"),
                "bus_id": first.group("bus_id"),
                "ecc_uncorrected": "N/A" if first.group("ecc") == "Off" else first.group("ecc"),
                "driver": driver.group(1) if driver else "",
            }
        elif second and current is not None:
            current.update(
                temperature=second.group("temperature"),
                pstate=second.group("pstate"),
                power=second.group("power"),
                power_limit=second.group("limit"),
                memory_used=second.group("used"),
                memory_total=second.group("total"),
                utilization=second.group("utilization"),
            )
            current = None
        elif process and process.group("index") in gpus:
            app = build_app(
                {
                    "gpu_bus_id": gpus[process.group("index")]["bus_id"],
                    "pid": process.group("pid"),
                    "used_gpu_memory": process.group("memory"),
                    "process_name": process.group("name"),
                }
            )
            apps += [app] if app is not None else []
    rows = [build_row(cells) for cells in gpus.values()]
    return [row for row in rows if row is not None], apps


def _silent(text: str) -> Iterator[GpuFault]:
    """GPUs whose cells say ERR!."""
    first: re.Match[str] | None = None
    for line in text.splitlines():
        first = _FIRST.match(line) or first
        if first is not None and "ERR!" in line and line.startswith("|"):
            yield GpuFault(int(first.group("index")), first.group("bus_id").lower(), line.strip("| \n"))
            first = None


# --- nvidia-smi -q -----------------------------------------------------------------------------------------------

_PATHS: dict[Path, str] = {
    ("Product Name",): "name",
    ("GPU UUID",): "uuid",
    ("MIG Mode", "Current"): "mig",
    ("Performance State",): "pstate",
    ("GPU Recovery Action",): "recovery_action",
    ("PCI", "GPU Link Info", "PCIe Generation", "Max"): "pcie_gen_max",
    ("PCI", "GPU Link Info", "PCIe Generation", "Current"): "pcie_gen",
    ("PCI", "GPU Link Info", "Link Width", "Max"): "pcie_width_max",
    ("PCI", "GPU Link Info", "Link Width", "Current"): "pcie_width",
    ("FB Memory Usage", "Total"): "memory_total",
    ("FB Memory Usage", "Used"): "memory_used",
    ("Utilization", "GPU"): "utilization",
    ("Utilization", "Gpu"): "utilization",
    ("Utilization", "Memory"): "memory_utilization",
    ("ECC Errors", "Aggregate", "SRAM Threshold Exceeded"): "sram_threshold_exceeded",
    ("Remapped Rows", "Correctable Error"): "remapped_correctable",
    ("Remapped Rows", "Uncorrectable Error"): "remapped_uncorrectable",
    ("Remapped Rows", "Pending"): "remap_pending",
    ("Remapped Rows", "Remapping Failure Occurred"): "remap_failure",
    ("Temperature", "GPU Current Temp"): "temperature",
    ("Temperature", "Memory Current Temp"): "memory_temperature",
    ("Power Readings", "Power Draw"): "power",
    ("Power Readings", "Power Limit"): "power_limit",
    ("GPU Power Readings", "Power Draw"): "power",
    ("GPU Power Readings", "Instantaneous Power Draw"): "power",
    ("GPU Power Readings", "Current Power Limit"): "power_limit",
    ("Clocks", "SM"): "sm_clock",
    ("Max Clocks", "SM"): "sm_clock_max",
}
_REASONS: dict[str, int] = {
    "Idle": 0x1,
    "Applications Clocks Setting": 0x2,
    "SW Power Cap": 0x4,
    "HW Slowdown": 0x8,
    "Sync Boost": 0x10,
    "SW Thermal Slowdown": 0x20,
    "HW Thermal Slowdown": 0x40,
    "HW Power Brake Slowdown": 0x80,
    "Display Clock Setting": 0x100,
}
_GPU = re.compile(r"GPU ([0-9A-Fa-f:.]{7,20})")


def _query(text: str) -> tuple[list[SmiRow], list[GpuProcess]]:
    driver = ""
    rows: list[SmiRow] = []
    apps: list[GpuProcess] = []
    block: list[tuple[Path, str]] = []
    bus_id = ""

    def close() -> None:
        if bus_id:
            row = build_row({**_cells(block), "index": str(len(rows)), "bus_id": bus_id, "driver": driver})
            rows.extend([row] if row is not None else [])
            apps.extend(_apps(bus_id, block))

    for path, value in _outline(text):
        opened = _GPU.fullmatch(path[0]) if len(path) == 1 and not value else None
        if opened:
            close()
            bus_id, block = opened.group(1), []
        elif bus_id:
            block.append((path[1:] if _GPU.fullmatch(path[0]) else path, value))
        elif path == ("Driver Version",):
            driver = value
    close()
    return rows, apps


def _outline(text: str) -> Iterator[tuple[Path, str]]:
    """Each line's keys from the outermost to its own, and its value; what is indented further is beneath it."""
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        words = line.strip()
        if not words or words.startswith("="):
            continue
        depth = len(line) - len(line.lstrip())
        key, colon, value = words.partition(" : ")
        while above and above[-1][0] >= depth:
            above.pop()
        key = words if _GPU.fullmatch(words) else key.strip()
        above.append((depth, key))
        yield tuple(name for _, name in above[-8:]), value.strip() if colon else ""


def _cells(block: list[tuple[Path, str]]) -> dict[str, str]:
    cells: dict[str, str] = {}
    reasons: int | None = None
    uncorrected: int | None = None
    for path, value in block:
        key = _PATHS.get(path)
        if key is not None:
            cells[key] = value
        elif len(path) >= 2 and path[0] in ("Clocks Event Reasons", "Clocks Throttle Reasons"):
            bit = _REASONS.get(path[-1], 0)
            reasons = (reasons or 0) | (bit if value == "Active" else 0)
        elif path[:2] == ("ECC Errors", "Volatile") and "Uncorrectable" in path[-1] and value[:18].isdecimal():
            uncorrected = (uncorrected or 0) + int(value[:18])
    if reasons is not None:
        cells["event_reasons"] = hex(reasons)
    if uncorrected is not None:
        cells["ecc_uncorrected"] = str(uncorrected)
    return cells


def _apps(bus_id: str, block: list[tuple[Path, str]]) -> Iterator[GpuProcess]:
    pid = name = ""
    for path, value in block:
        if path[0] != "Processes":
            continue
        if path[-1] == "Process ID":
            pid, name = value, ""
        elif path[-1] == "Name":
            name = value
        elif path[-1] == "Used GPU Memory" and pid:
            cells = {"gpu_bus_id": bus_id, "pid": pid, "used_gpu_memory": value, "process_name": name}
            app = build_app(cells)
            if app is not None:
                yield app
