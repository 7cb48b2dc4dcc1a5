"""The columns that are asked of nvidia-smi, and its rows, in any of its formats, with or without units.

Values come as ``97``, ``97 %``, ``627.40 W``, ``0x4``, ``[N/A]``, ``ERR!``. Names of columns changed over the years,
and one unknown name fails the whole query.
"""

from __future__ import annotations

import re
from typing import Any, Collection, Dict, Iterator, NamedTuple, Optional, Sequence, Tuple

from collectors.samples.gpus import GpuFacts, GpuFault, GpuProcess, GpuSample, bus_key
from collectors.samples.stream import Fault


class SmiColumn(NamedTuple):
    """One column: the field of the sample, nvidia-smi's names for it, newest first, and what its cells hold."""

    key: str
    names: Tuple[str, ...]
    kind: str = "whole"


COLUMNS: Tuple[SmiColumn, ...] = (
    SmiColumn("index", ("index",)),
    SmiColumn("bus_id", ("pci.bus_id", "gpu_bus_id"), "text"),
    SmiColumn("uuid", ("uuid", "gpu_uuid"), "text"),
    SmiColumn("driver", ("driver_version",), "text"),
    SmiColumn("pstate", ("pstate",), "text"),
    SmiColumn("temperature", ("temperature.gpu",)),
    SmiColumn("memory_temperature", ("temperature.memory",)),
    SmiColumn("utilization", ("utilization.gpu",)),
    SmiColumn("memory_utilization", ("utilization.memory",)),
    SmiColumn("memory_used", ("memory.used",), "mebibytes"),
    SmiColumn("memory_total", ("memory.total",), "mebibytes"),
    SmiColumn("power", ("power.draw.instant", "power.draw"), "decimal"),  # power.draw is an average on Ampere and later
    SmiColumn("power_limit", ("power.limit",), "decimal"),
    SmiColumn("sm_clock", ("clocks.current.sm", "clocks.sm")),
    SmiColumn("sm_clock_max", ("clocks.max.sm",)),
    # renamed with driver 535
    SmiColumn("event_reasons", ("clocks_event_reasons.active", "clocks_throttle_reasons.active"), "mask"),
    SmiColumn("pcie_gen", ("pcie.link.gen.gpucurrent", "pcie.link.gen.current")),
    SmiColumn("pcie_gen_max", ("pcie.link.gen.max",)),
    SmiColumn("pcie_width", ("pcie.link.width.current",)),
    SmiColumn("pcie_width_max", ("pcie.link.width.max",)),
    SmiColumn("ecc_uncorrected", ("ecc.errors.uncorrected.volatile.total",)),
    SmiColumn("sram_threshold_exceeded", ("ecc.errors.uncorrected.aggregate.sram.thresholdExceeded",), "truth"),
    SmiColumn("remapped_uncorrectable", ("remapped_rows.uncorrectable",)),
    SmiColumn("remap_pending", ("remapped_rows.pending",), "truth"),
    SmiColumn("remap_failure", ("remapped_rows.failure",), "truth"),
    SmiColumn("recovery_action", ("gpu_recovery_action",), "verbatim"),
    SmiColumn("mig", ("mig.mode.current",), "text"),
    SmiColumn("name", ("name", "gpu_name"), "text"),  # last: it alone may hold a comma
)

APP_FIELDS = ("gpu_bus_id", "pid", "used_gpu_memory", "process_name")
"""Columns of the compute-apps list, in the order in which they are asked for."""

INDICES = 1024
"""GPUs of a node that are told apart: no row of a higher one is taken over there (``collectors/fleet/bounds.py``)."""

GONE = re.compile(r"GPU is lost|fallen off the bus|Unable to determine the device handle", re.IGNORECASE)
"""Words about a GPU that no longer answers."""

_REJECTED = re.compile(r'Field "([^"]*)" is not a valid field to query')
_BUS_ID = re.compile(r"(?<![0-9a-fA-F:.])(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2,4}:[0-9a-fA-F]{2}\.[0-9a-fA-F]\b")
# "GPU0000:07:00.0" runs GPU and address together: that 0000 is no index.
_INDEX = re.compile(r"\bGPU ?(\d{1,3})(?![\d:])|\bGPU ?(\d{1,3}): ")
_ABSENT = re.compile(
    r"\[?(N/A|Not (Supported|Available|Found)|None|Insufficient Permissions|.{0,60}deprecated)\]?|-|", re.IGNORECASE
)
_NUMBER = re.compile(r"([-+]?\d{1,18}(?:\.\d{1,9})?)\s*(%|W|MHz|MiB|C)?", re.IGNORECASE)
_MASK = re.compile(r"0x[0-9a-fA-F]{1,16}")
_SIGNED = (1 << 63) - 1
"""What reads numbers of 64 bits takes signed ones."""
_LARGEST_SIZE = 1e12
"""MiB."""
_TRUTHS = {
    **dict.fromkeys(("yes", "active", "enabled", "true"), True),
    **dict.fromkeys(("no", "not active", "disabled", "false", "none"), False),
}


class SmiRow(NamedTuple):
    """One GPU's row."""

    facts: GpuFacts
    sample: GpuSample


def choose(rejected: Collection[str] = ()) -> Dict[str, str]:
    """Columns to ask for, nvidia-smi's name by ours: of each the newest name that the driver has not rejected."""
    chosen = ((column.key, [name for name in column.names if name not in rejected]) for column in COLUMNS)
    return {key: names[0] for key, names in chosen if names}


def rejected_field(text: str) -> Optional[str]:
    """The field that nvidia-smi says it does not know; None when the text says nothing of the kind."""
    found = _REJECTED.search(text)
    return found.group(1) if found else None


def value(kind: str, cell: str) -> Any:
    """What a cell holds; None, or an empty text, where it is not available. Raises :class:`ValueError` for all else."""
    if kind == "verbatim":
        return cell
    if kind == "text":
        return "" if _ABSENT.fullmatch(cell) else cell
    number = _NUMBER.fullmatch(cell)
    if kind == "truth" and (number or cell.lower() in _TRUTHS):
        return float(number.group(1)) != 0 if number else _TRUTHS[cell.lower()]
    if kind == "mask" and _MASK.fullmatch(cell):
        return int(cell, 16) & _SIGNED
    if number and kind in ("whole", "decimal", "mebibytes"):
        found = float(number.group(1))
        if kind == "mebibytes":
            return None if abs(found) > _LARGEST_SIZE else int(found * (1 << 20))
        return int(found) if kind == "whole" else found
    if _ABSENT.fullmatch(cell):
        return None
    raise ValueError(cell)


def gpu_row(keys: Sequence[str], line: str) -> Optional[SmiRow]:
    """Read one line that should have these columns; None when it is no row.

    A row without an index is none: it could not be told whose it is.
    """
    cells = [cell.strip() for cell in line.split(",", len(keys) - 1)]
    return build_row(dict(zip(keys, cells))) if len(cells) == len(keys) else None


def build_row(cells: Dict[str, str]) -> Optional[SmiRow]:
    """SmiRow of cells by the keys of :data:`COLUMNS`; None without an index."""
    values: Dict[str, Any] = {}
    odd: Dict[str, str] = {}
    for column in COLUMNS:
        cell = cells.get(column.key, "").strip()
        try:
            values[column.key] = value(column.kind, cell)
        except ValueError:
            values[column.key] = None
            odd[column.key] = cell[:80]
    index = values["index"]
    if index is None or not 0 <= index < INDICES:
        return None
    values.update(gpu=index, bus_id=values["bus_id"].lower(), odd=odd or None)
    facts = GpuFacts._make(values[name] for name in GpuFacts._fields)
    return SmiRow(facts, GpuSample._make(values[name] for name in GpuSample._fields))


def lost_row(row: SmiRow) -> Optional[GpuFault]:
    """The fault that a row's own cells tell: nvidia-smi lists a lost GPU with its error in every column."""
    for text in (row.sample.odd or {}).values():
        if GONE.search(text):
            return GpuFault(row.facts.gpu, row.facts.bus_id, text)
    return None


def device_line(line: str) -> GpuFault:
    """Fault of a line that is no row, with the index and the address that it names."""
    bus, index = _BUS_ID.search(line), _INDEX.search(line)
    said = (index.group(1) or index.group(2)) if index else None
    return GpuFault(None if said is None else int(said), bus.group(0).lower() if bus else "", line.strip()[:500])


def app_row(line: str) -> Optional[GpuProcess]:
    """Read one line of the compute-apps list asked for with :data:`APP_FIELDS`; None when it is no row."""
    cells = [cell.strip() for cell in line.split(",", len(APP_FIELDS) - 1)]
    return build_app(dict(zip(APP_FIELDS, cells))) if len(cells) == len(APP_FIELDS) else None


def build_app(cells: Dict[str, str]) -> Optional[GpuProcess]:
    """Process of named cells; None without a pid and an address."""
    bus = _BUS_ID.fullmatch(cells.get("gpu_bus_id", "").strip())
    pid, memory = _known("whole", cells.get("pid", "")), _known("mebibytes", cells.get("used_gpu_memory", ""))
    if pid is None or pid <= 0 or bus is None:
        return None
    return GpuProcess(bus.group(0).lower(), pid, memory, None, value("text", cells.get("process_name", "").strip()))


def _known(kind: str, cell: str) -> Any:
    try:
        return value(kind, cell.strip())
    except ValueError:
        return None


class GpuRoster:
    """Which GPUs should answer, which do, and what nvidia-smi says in place of those that do not.

    A GPU that ever gave a row is expected to give one in every round of nvidia-smi's; one that gave none for two rounds
    is missing. A fault is over when the GPU gives a row again (a :class:`GpuFault` without a text).
    """

    def __init__(self) -> None:
        self._known: Dict[str, GpuFacts] = {}
        self._round = 0
        """Counted by the GPU that is heard most often."""
        self._rounds: Dict[str, int] = {}
        """The round in which each GPU gave its last row."""
        self._faults: Dict[Tuple[Optional[int], str], str] = {}

    def row(self, row: SmiRow) -> Iterator[NamedTuple]:
        """Samples of a row, and what it changes in the faults."""
        fault = lost_row(row)
        if fault is not None:
            yield from self._fault(fault)
            return
        key = bus_key(row.facts.bus_id) if row.facts.bus_id else str(row.facts.gpu)
        if self._rounds.get(key) == self._round:
            self._round += 1
        self._known[key], self._rounds[key] = row.facts, self._round
        place = (row.facts.gpu, row.facts.bus_id)
        if self._faults.pop(place, ""):
            yield GpuFault(*place, "")
        yield row.facts
        yield row.sample
        missing = [facts for other, facts in self._known.items() if self._rounds[other] < self._round - 1]
        for facts in missing:
            if (facts.gpu, facts.bus_id) not in self._faults:
                answer = len(self._known) - len(missing)
                words = "missing from nvidia-smi's list: %d of %d GPUs answer" % (answer, len(self._known))
                yield from self._fault(GpuFault(facts.gpu, facts.bus_id, words))

    def line(self, line: str) -> Iterator[NamedTuple]:
        """A line that is no row: the fault of a lost GPU, or a remark."""
        fault = device_line(line)
        if not GONE.search(line):
            yield Fault("gpus", line[:500], 1)
            return
        for key, facts in self._known.items():  # the index and the address that earlier rows gave that GPU
            if (fault.bus_id and bus_key(fault.bus_id) == key) or (not fault.bus_id and facts.gpu == fault.gpu):
                fault = GpuFault(facts.gpu, facts.bus_id, fault.text)
        yield from self._fault(fault)

    def _fault(self, fault: GpuFault) -> Iterator[GpuFault]:
        if self._faults.get(fault[:2]) != fault.text:
            self._faults[fault.gpu, fault.bus_id] = fault.text
            yield fault
