"""nvidia-smi's output for people: the table of a plain ``nvidia-smi``, and the long list of ``nvidia-smi -q``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from collectors.node.nvidia_smi_rows import Row, build_row, device_line, header, saved_rows
from collectors.samples import GpuFault

_TITLE = re.compile(r"NVIDIA-SMI +(?P<driver>[\d.]+)")
_FIRST = re.compile(
    r"^\| {1,3}(?P<index>\d{1,3}) {1,3}(?P<name>\S.*?) +(?:On|Off"
    r"|N/A) *\| *(?P<bus>[0-9A-Fa-f:.]{10,16}) .*\| *(?P<ecc>\S.*?) *\|\s*$"
)
_SECOND = re.compile(
    r"^\| *(?:\S+) +(?P<temperature>\S+) +(?P<pstate>\S+) +(?P<power>\S+) */ *(?P<limit>\S+) *\|"
    r" *(?P<used>\S+) */ *(?P<total>\S+) *\| *(?P<utilization>\S+) .*\|\s*$"
)
_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*$")
_VALUE = re.compile(r"^(?P<indent> *)(?P<key>[^:]+?) *(?:: (?P<value>.*))?$")
_TROUBLE = re.compile(
    r"Unable to determine the device handle|GPU is lost|No devices were found"
    r"|has failed because|Failed to initialize NVML|ERR!"
)

QUERIED: dict[str, str] = {
    "Product Name": "name",
    "GPU UUID": "uuid",
    "Performance State": "pstate",
    "Temperature/GPU Current Temp": "temperature",
    "Utilization/Gpu": "utilization",
    "Utilization/GPU": "utilization",
    "FB Memory Usage/Used": "memory_used",
    "FB Memory Usage/Total": "memory_total",
    "Clocks/SM": "sm_clock",
    "Max Clocks/SM": "sm_clock_max",
    "Remapped Rows/Correctable Error": "remapped_correctable",
    "Remapped Rows/Uncorrectable Error": "remapped_uncorrectable",
    "Remapped Rows/Pending": "remap_pending",
    "Remapped Rows/Remapping Failure Occurred": "remap_failure",
    "ECC Errors/Aggregate/SRAM Threshold Exceeded": "sram_threshold_exceeded",
    "PCI/GPU Link Info/PCIe Generation/Current": "pcie_gen",
    "PCI/GPU Link Info/PCIe Generation/Max": "pcie_gen_max",
    "PCI/GPU Link Info/Link Width/Current": "pcie_width",
    "PCI/GPU Link Info/Link Width/Max": "pcie_width_max",
    "GPU Recovery Action": "recovery_action",
}
"""Keys of ``-q``, with the sections that they stand in, and our names of them."""

REASONS: dict[str, int] = {
    "Idle": 0x1, "Applications Clocks Setting": 0x2, "SW Power Cap": 0x4, "HW Slowdown": 0x8, "Sync Boost": 0x10,
    "SW Thermal Slowdown": 0x20, "HW Slowdown/HW Thermal Slowdown": 0x40, "HW Slowdown/HW Power Brake Slowdown": 0x80,
    "Display Clock Setting": 0x100,
}  # fmt: skip
"""Bits of the event reasons."""


def looks_like(head: str) -> bool:
    """Whether a text that begins so may be nvidia-smi's."""
    if "NVSMI LOG" in head or ("NVIDIA-SMI" in head and ("+--" in head or "failed" in head)):
        return True
    return header(head.split("\n", 1)[0]) is not None or bool(re.match(r"Unable to determine the device handle", head))


def read(text: str) -> tuple[list[Row], list[GpuFault]]:
    """Rows of GPUs, and lines of trouble, of any of the forms; CSV with a header too."""
    if header(text.lstrip("\n").split("\n", 1)[0]) is not None:
        return saved_rows(text)
    rows = list(_queried(text) if "NVSMI LOG" in text else _table(text))
    # a cell of the table reads ERR! where the GPU does not answer any more; the row says of which GPU
    faults = [device_line(line) for line in text.splitlines() if _TROUBLE.search(line) and not line.startswith("|")]
    return rows, [*faults, *_silent(text)]


def _table(text: str) -> Iterator[Row]:
    driver = _TITLE.search(text)
    first: re.Match[str] | None = None
    for line in text.splitlines():
        opened = _FIRST.match(line)
        if opened is not None:
            first = opened
            continue
        second = _SECOND.match(line) if first is not None else None
        if first is None or second is None:
            continue
        row = build_row(
            {
                "index": first.group("index"),
                "bus_id": first.group("bus"),
                "name": first.group("name"),
                "driver": driver.group("driver") if driver is not None else "",
                "ecc_uncorrected": first.group("ecc"),
                "temperature": second.group("temperature"),
                "pstate": second.group("pstate"),
                "power": _spaced(second.group("power")),
                "power_limit": _spaced(second.group("limit")),
                "memory_used": _spaced(second.group("used")),
                "memory_total": _spaced(second.group("total")),
                "utilization": second.group("utilization"),
            }
        )
        first = None
        if row is not None:
            yield row


def _spaced(cell: str) -> str:
    """``77W`` as the other formats write it."""
    return re.sub(r"(?<=\d)(?=[A-Za-z])", " ", cell)


def _silent(text: str) -> Iterator[GpuFault]:
    """GPUs whose cells say ERR!."""
    first: re.Match[str] | None = None
    for line in text.splitlines():
        first = _FIRST.match(line) or first
        if first is not None and "ERR!" in line and line.startswith("|"):
            yield GpuFault(int(first.group("index")), first.group("bus").lower(), line.strip("| \n"))
            first = None


def _queried(text: str) -> Iterator[Row]:
    driver = re.search(r"^Driver Version *: (\S+)", text, re.MULTILINE)
    cells: dict[str, str] = {}
    mask, index = 0, -1
    sections: list[tuple[int, str]] = []
    for line in text.splitlines():
        gpu = _GPU.match(line)
        if gpu is not None:
            if index >= 0:
                yield from _finished(cells, mask)
            index += 1
            cells = {"index": str(index), "bus_id": gpu.group(1), "driver": driver.group(1) if driver else ""}
            mask, sections = 0, []
            continue
        value = _VALUE.match(line)
        if value is None or index < 0 or not value.group("key").strip():
            continue
        depth = len(value.group("indent"))
        while sections and sections[-1][0] >= depth:
            sections.pop()
        path = "/".join([*(name for _, name in sections), value.group("key")])
        said = value.group("value")
        if said is None:
            sections.append((depth, value.group("key")))
            continue
        if said == "Active" or said == "Not Active":
            # the reasons nest under "HW Slowdown", which has a value of its own
            sections.append((depth, value.group("key")))
        mask |= _reason(path) if said == "Active" else 0
        _cell(cells, path, said)
    if index >= 0:
        yield from _finished(cells, mask)


def _cell(cells: dict[str, str], path: str, said: str) -> None:
    name = QUERIED.get(path)
    if name is not None:
        cells.setdefault(name, said)
    elif path.startswith("ECC Errors/Volatile/") and "Uncorrectable" in path and said.isdigit():
        cells["ecc_uncorrected"] = str(int(cells.get("ecc_uncorrected", "0")) + int(said[:12]))
    elif path.endswith(("Instantaneous Power Draw", "Power Readings/Power Draw", "Average Power Draw")):
        cells.setdefault("power", said)
    elif path.endswith(("Current Power Limit", "Power Readings/Power Limit")):
        cells.setdefault("power_limit", said)


def _reason(path: str) -> int:
    section, _, name = path.partition("/")
    return REASONS.get(name, 0) if section in ("Clocks Event Reasons", "Clocks Throttle Reasons") else 0


def _finished(cells: dict[str, str], mask: int) -> Iterator[Row]:
    row = build_row({**cells, "event_reasons": f"0x{mask:016x}"})
    if row is not None:
        yield row
