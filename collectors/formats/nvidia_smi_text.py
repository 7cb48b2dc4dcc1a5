"""Saved output of nvidia-smi: its table, and CSV with a header (``--query-gpu``, ``--query-compute-apps``)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from collectors.node.gpus.nvidia_smi import NAMES, SmiRow, build_app, build_row
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
_APP_NAMES = {"used_memory": "used_gpu_memory", "name": "process_name"}
"""Other names of the columns of ``--query-compute-apps``."""


class SavedSmi(NamedTuple):
    """What one saved output tells; nothing where it is another text."""

    rows: list[SmiRow]
    faults: list[GpuFault]
    """GPUs whose cells say ``ERR!``."""
    apps: list[GpuProcess]


def looks_like(head: str) -> bool:
    """Whether a text that begins so has a table, or is CSV with a header."""
    first = head.lstrip("\n").partition("\n")[0]
    return _TABLE.search(head) is not None or bool(_columns(first)) or bool(_app_columns(first))


def read(text: str) -> SavedSmi:
    """What the tables of a text, or the rows of its CSV, tell."""
    table = _TABLE.search(text)
    if table is not None:
        return _table(text, table.group("driver"))
    first, *lines = text.lstrip("\n").split("\n")
    columns, app_columns = _columns(first), _app_columns(first)
    apps = [build_app(cells) for cells in _csv(lines, app_columns)] if app_columns else []
    rows = [build_row(cells) for cells in _numbered(_csv(lines, columns))] if columns and not app_columns else []
    return SavedSmi([row for row in rows if row is not None], [], [app for app in apps if app is not None])


def _table(text: str, driver: str) -> SavedSmi:
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


def _columns(line: str) -> list[str]:
    """Our names of the columns of ``--query-gpu`` (empty for one that is not ours); none where it is no header."""
    titles = _titles(line)
    keys = [NAMES.get(title, "") for title in titles]
    return keys if sum(map(bool, keys)) >= 2 and not any(title.isdigit() for title in titles) else []


def _app_columns(line: str) -> list[str]:
    """The columns of ``--query-compute-apps``; none where it is no such header."""
    titles = [_APP_NAMES.get(title, title) for title in _titles(line)]
    is_header = "pid" in titles and {"used_gpu_memory", "gpu_bus_id", "gpu_uuid", "process_name"} & {*titles}
    return titles if is_header else []


def _titles(line: str) -> list[str]:
    return [cell.strip().partition(" [")[0] for cell in line.split(",")]


def _csv(lines: list[str], columns: list[str]) -> Iterator[dict[str, str]]:
    """Rows below a header; the last column may have commas of its own."""
    for line in lines:
        cells = [cell.strip() for cell in line.split(",", max(0, len(columns) - 1))]
        if len(cells) == len(columns) and _titles(line) != columns:
            yield {key: cell for key, cell in zip(columns, cells, strict=True) if key}


def _numbered(rows: Iterator[dict[str, str]]) -> Iterator[dict[str, str]]:
    """Rows without an index are numbered in the order in which UUIDs, or else bus addresses, first appear."""
    order: dict[str, int] = {}
    for number, cells in enumerate(rows):
        label = cells.get("uuid") or cells.get("bus_id") or str(number)
        yield {"index": str(order.setdefault(label, len(order))), **cells}
