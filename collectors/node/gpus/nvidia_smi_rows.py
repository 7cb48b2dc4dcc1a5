"""Rows and other lines of ``nvidia-smi --query-gpu`` and ``--query-compute-apps``, with or without units and header."""

from __future__ import annotations

import re
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from collectors.node.gpus.nvidia_smi_fields import NAMES
from collectors.node.gpus.nvidia_smi_values import GpuValues
from collectors.samples.gpus import GpuFacts, GpuFault, GpuProcess, GpuSample

APP_FIELDS = ("gpu_bus_id", "pid", "used_gpu_memory", "process_name")
"""Columns of the compute-apps list, in the order in which they are asked for."""

_APP_NAMES = {"used_memory": "used_gpu_memory", "name": "process_name"}
_BUS_ID = re.compile(r"(?<![0-9a-fA-F:.])(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2,4}:[0-9a-fA-F]{2}\.[0-9a-fA-F]\b")
# "GPU0000:07:00.0" runs GPU and address together: that 0000 is no index.
_INDEX = re.compile(r"\bGPU ?(\d{1,3})(?![\d:])|\bGPU ?(\d{1,3}): ")
GONE = re.compile(r"GPU is lost|fallen off the bus|Unable to determine the device handle", re.IGNORECASE)
"""Words about a GPU that no longer answers."""


class Row(NamedTuple):
    """One GPU's row. ``gpus`` is how many nvidia-smi says there are."""

    facts: GpuFacts
    sample: GpuSample
    gpus: Optional[int]


def gpu_row(keys: Sequence[str], line: str) -> Optional[Row]:
    """Read one line that should have these columns; None when it is no row.

    A row without an index is none: it could not be told whose it is.
    """
    cells = [cell.strip() for cell in line.split(",", len(keys) - 1)]
    if len(cells) != len(keys):
        return None
    return build_row(dict(zip(keys, cells)))


INDICES = 1024
"""GPUs of a node that are told apart: no row of a higher one is taken over there (``collectors/fleet/bounds.py``)."""


def build_row(cells: Dict[str, str]) -> Optional[Row]:
    """Row of named cells (see :data:`~collectors.node.gpus.nvidia_smi_fields.FIELDS`); None without an index."""
    values = GpuValues(cells)
    index = values.whole("index")
    if index is None or not 0 <= index < INDICES:
        return None
    facts = GpuFacts(
        gpu=index,
        uuid=values.text("uuid"),
        bus_id=values.text("bus_id").lower(),
        name=values.text("name"),
        driver=values.text("driver"),
        memory_total=values.mebibytes("memory_total"),
        power_limit=values.decimal("power_limit"),
        sm_clock_max=values.whole("sm_clock_max"),
        pcie_gen_max=values.whole("pcie_gen_max"),
        pcie_width_max=values.whole("pcie_width_max"),
        mig=values.text("mig"),
    )
    sample = GpuSample(
        gpu=index,
        pstate=values.text("pstate"),
        temperature=values.whole("temperature"),
        memory_temperature=values.whole("memory_temperature"),
        utilization=values.whole("utilization"),
        memory_utilization=values.whole("memory_utilization"),
        memory_used=values.mebibytes("memory_used"),
        power=values.decimal("power"),
        sm_clock=values.whole("sm_clock"),
        event_reasons=values.mask("event_reasons"),
        pcie_gen=values.whole("pcie_gen"),
        pcie_width=values.whole("pcie_width"),
        ecc_uncorrected=values.whole("ecc_uncorrected"),
        sram_threshold_exceeded=values.truth("sram_threshold_exceeded"),
        remapped_correctable=values.whole("remapped_correctable"),
        remapped_uncorrectable=values.whole("remapped_uncorrectable"),
        remap_pending=values.truth("remap_pending"),
        remap_failure=values.truth("remap_failure"),
        recovery_action=cells.get("recovery_action", ""),
        odd=values.odd or None,
    )
    return Row(facts, sample, values.whole("count"))


def lost_row(row: Row) -> Optional[GpuFault]:
    """The fault that a row's own cells tell: nvidia-smi lists a lost GPU with its error in every column."""
    for text in (row.sample.odd or {}).values():
        if GONE.search(text):
            return GpuFault(row.facts.gpu, row.facts.bus_id, text)
    return None


def device_line(line: str) -> GpuFault:
    """Fault of a line that is no row, with the index and the address that it names."""
    bus = _BUS_ID.search(line)
    index = _INDEX.search(line)
    said = (index.group(1) or index.group(2)) if index else None
    return GpuFault(None if said is None else int(said), bus.group(0).lower() if bus else "", line.strip()[:500])


def bus_key(bus_id: str) -> str:
    """A PCI address in one spelling: nvidia-smi's domain has eight digits or four, in either case."""
    domain, _, rest = bus_id.strip().lower().partition(":")
    return "%s:%s" % (domain[-4:].rjust(4, "0"), rest)


def app_row(line: str) -> Optional[GpuProcess]:
    """Read one line of the compute-apps list asked for with :data:`APP_FIELDS`; None when it is no row."""
    cells = [cell.strip() for cell in line.split(",", len(APP_FIELDS) - 1)]
    if len(cells) != len(APP_FIELDS):
        return None
    return build_app(dict(zip(APP_FIELDS, cells)))


def build_app(cells: Dict[str, str]) -> Optional[GpuProcess]:
    """Process of named cells; None without a pid and an address."""
    values = GpuValues(cells)
    pid = values.whole("pid")
    bus = _BUS_ID.fullmatch(cells.get("gpu_bus_id", "").strip())
    if pid is None or pid <= 0 or bus is None:
        return None
    return GpuProcess(bus.group(0).lower(), pid, values.mebibytes("used_gpu_memory"), None, values.text("process_name"))


def header(line: str) -> Optional[List[str]]:
    """Our names of the columns of a saved CSV's first line (``""`` for one that is not ours); None when it is none."""
    names = [cell.strip().partition(" [")[0] for cell in line.split(",")]
    keys = [NAMES.get(name, "") for name in names]
    return keys if sum(map(bool, keys)) >= 2 and not any(cell.isdigit() for cell in names) else None


def saved_rows(text: str) -> Tuple[List[Row], List[GpuFault]]:
    """Rows of a saved ``--query-gpu=… --format=csv`` with its header, and its other lines as faults.

    A query without ``index`` is numbered in the order in which bus addresses (or else names) first appear.
    """
    keys: Optional[List[str]] = None
    rows: List[Row] = []
    faults: List[GpuFault] = []
    order: List[str] = []
    for line in text.splitlines():
        if keys is None:
            keys = header(line)
            continue
        if not line.strip() or header(line) is not None:
            continue
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(keys):
            faults.append(device_line(line))
            continue
        named = {key: cell for key, cell in zip(keys, cells) if key}
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


def saved_apps(text: str) -> List[GpuProcess]:
    """Processes of a saved ``--query-compute-apps=… --format=csv`` with its header."""
    names: List[str] = []
    apps: List[GpuProcess] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",", max(0, len(names) - 1) if names else -1)]
        if "pid" in cells:
            titles = [cell.partition(" [")[0] for cell in cells]
            names = [_APP_NAMES.get(title, title) for title in titles]
        elif len(cells) == len(names):
            app = build_app(dict(zip(names, cells)))
            apps += [app] if app is not None else []
    return apps
