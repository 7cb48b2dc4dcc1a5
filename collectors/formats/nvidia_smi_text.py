"""The table that nvidia-smi prints, as somebody saved it."""

from __future__ import annotations

import re
from typing import NamedTuple

from collectors.node.gpus.nvidia_smi import SmiRow, build_app, build_row
from collectors.samples.gpus import GpuFault, GpuProcess

_TABLE = re.compile(r"NVIDIA-SMI .{0,40}Driver Version: (?P<driver>[\w.]{1,32})")
_FIRST = re.compile(
    r"\|\s{1,8}(?P<index>\d{1,4})\s{1,8}(?P<name>\S.{0,60}?)\s{1,40}(?:On|Off|N/A)\s{0,8}"
    r"\|\s{0,16}(?P<bus_id>[0-9A-Fa-f:.]{10,16})\s{1,8}\S{1,8}\s{0,8}\|\s{0,40}(?P<ecc_uncorrected>\S{1,16})\s{0,8}\|"
)
_SECOND = re.compile(
    r"\|\s{0,8}\S{1,6}\s{1,16}(?P<temperature>\S{1,8})\s{1,16}(?P<pstate>\S{1,6})\s{1,40}"
    r"(?P<power>\S{1,10})\s{0,4}/\s{0,4}(?P<power_limit>\S{1,10})\s{0,8}"
    r"\|\s{0,24}(?P<memory_used>\S{1,16})\s{0,4}/\s{0,12}(?P<memory_total>\S{1,16})\s{0,8}"
    r"\|\s{0,24}(?P<utilization>\S{1,8})\s"
)
_PROCESS = re.compile(
    r"\|\s{1,8}(?P<index>\d{1,4})\s{1,12}(?:\S{1,6}\s{1,8}\S{1,6}\s{1,24})?(?P<pid>\d{1,10})\s{1,12}[CGM+]{1,5}\s{1,8}"
    r"(?P<process_name>\S.{0,80}?)\s{1,80}(?P<used_gpu_memory>\S{1,16})\s{1,4}\|"
)


class SavedSmi(NamedTuple):
    """What one saved output tells; nothing where it is another text."""

    rows: list[SmiRow]
    faults: list[GpuFault]
    """GPUs whose cells say ``ERR!``."""
    apps: list[GpuProcess]


def looks_like(head: str) -> bool:
    """Whether a text that begins so has a table."""
    return _TABLE.search(head) is not None


def read(text: str) -> SavedSmi:
    """What the tables of a text tell."""
    table = _TABLE.search(text)
    driver = "" if table is None else table.group("driver")
    gpus: dict[str, dict[str, str]] = {}
    faults: dict[str, GpuFault] = {}
    apps: list[GpuProcess] = []
    current: dict[str, str] = {}
    rows: list[SmiRow] = []
    for line in text.splitlines():
        first, second, process = _FIRST.match(line), _SECOND.match(line), _PROCESS.match(line)
        if first is not None:
            current = gpus[first.group("index")] = {**first.groupdict(), "driver": driver}
            if current["ecc_uncorrected"] == "Off":
                current["ecc_uncorrected"] = "N/A"
        elif second is not None and current:
            row = build_row({**current, **second.groupdict()})
            rows += [row] if row is not None else []
        elif process is not None and process.group("index") in gpus:
            app = build_app({**process.groupdict(), "gpu_bus_id": gpus[process.group("index")]["bus_id"]})
            apps += [app] if app is not None else []
        if current and "ERR!" in line and line.startswith("|"):
            bus_id = current["bus_id"].lower()
            faults.setdefault(bus_id, GpuFault(int(current["index"]), bus_id, line.strip("| \n")))
    return SavedSmi(rows, list(faults.values()), apps)
