"""The columns that are asked of nvidia-smi, and its rows, in any of its formats, with or without units.

Values come as ``97``, ``97 %``, ``627.40 W``, ``0x4``, ``[N/A]``, ``ERR!``. Names of columns changed over the years,
and one unknown name fails the whole query.
"""

from __future__ import annotations

import re
from typing import Any, Collection, Dict, Iterator, NamedTuple, Optional, Sequence, Tuple

from collectors.samples.gpus import GpuFacts, GpuFault, GpuProcess, GpuSample, bus_key
from collectors.samples.stream import Fault

COLUMNS: Dict[str, Tuple[str, ...]] = {
    "index": ("whole", "index"),
    "bus_id": ("text", "pci.bus_id", "gpu_bus_id"),
    "uuid": ("text", "uuid", "gpu_uuid"),
    "temperature": ("whole", "temperature.gpu"),
    "memory_temperature": ("whole", "temperature.memory"),
    "utilization": ("whole", "utilization.gpu"),
    "memory_utilization": ("whole", "utilization.memory"),
    "memory_used": ("mebibytes", "memory.used"),
    "memory_total": ("mebibytes", "memory.total"),
    "power": ("decimal", "power.draw.instant", "power.draw"),  # power.draw is an average on Ampere and later
    "power_limit": ("decimal", "power.limit"),
    "sm_clock": ("whole", "clocks.current.sm", "clocks.sm"),
    "sm_clock_max": ("whole", "clocks.max.sm"),
    "event_reasons": ("mask", "clocks_event_reasons.active", "clocks_throttle_reasons.active"),  # since driver 535
    "pcie_gen": ("whole", "pcie.link.gen.gpucurrent", "pcie.link.gen.current"),
    "pcie_gen_max": ("whole", "pcie.link.gen.max"),
    "pcie_width": ("whole", "pcie.link.width.current"),
    "pcie_width_max": ("whole", "pcie.link.width.max"),
    "ecc_uncorrected": ("whole", "ecc.errors.uncorrected.volatile.total"),
    "sram_threshold_exceeded": ("truth", "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded"),
    "remapped_uncorrectable": ("whole", "remapped_rows.uncorrectable"),
    "remap_pending": ("truth", "remapped_rows.pending"),
    "remap_failure": ("truth", "remapped_rows.failure"),
    "recovery_action": ("text", "gpu_recovery_action"),
    "name": ("text", "name", "gpu_name"),  # last: it alone may hold a comma
}
"""By the field of the sample: what the cells hold, and nvidia-smi's names of the column, newest first."""

APP_FIELDS = ("gpu_bus_id", "pid", "used_gpu_memory", "process_name")
"""Columns of the compute-apps list, in the order in which they are asked for."""

GONE = re.compile(r"GPU is lost|fallen off the bus|Unable to determine the device handle", re.IGNORECASE)
"""Words about a GPU that no longer answers."""

_REJECTED = r'Field "([^"]*)" is not a valid field to query'
_BUS_ID = r"(?<![0-9a-fA-F:.])(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2,4}:[0-9a-fA-F]{2}\.[0-9a-fA-F]\b"
# "GPU0000:07:00.0" runs GPU and address together: that 0000 is no index.
_INDEX = r"\bGPU ?(\d{1,3})(?:(?![\d:])|(?=: ))"
_ABSENT = re.compile(
    r"\[?(N/A|Not (Supported|Available|Found)|None|Insufficient Permissions|.{0,60}deprecated)\]?|-|", re.IGNORECASE
)
_NUMBER = re.compile(r"([-+]?\d{1,12}(?:\.\d{1,9})?)\s*(%|W|MHz|MiB|C)?", re.IGNORECASE)
_MASK = r"0x[0-9a-fA-F]{1,16}"
_TRUTHS = {"yes": True, "1": True, "no": False, "0": False}


def choose(rejected: Collection[str] = ()) -> Dict[str, str]:
    """Columns to ask for, nvidia-smi's name by ours: of each the newest name that the driver has not rejected."""
    chosen = ((key, [name for name in names if name not in rejected]) for key, (_, *names) in COLUMNS.items())
    return {key: names[0] for key, names in chosen if names}


def rejected_field(text: str) -> Optional[str]:
    """The field that nvidia-smi says it does not know; None when the text says nothing of the kind."""
    found = re.search(_REJECTED, text)
    return found.group(1) if found else None


def value(kind: str, cell: str) -> Any:
    """What a cell holds; None, or an empty text, where it is not available. Raises :class:`ValueError` for all else."""
    if kind == "text":
        return "" if _ABSENT.fullmatch(cell) else cell
    number = _NUMBER.fullmatch(cell)
    if kind == "truth" and cell.lower() in _TRUTHS:
        return _TRUTHS[cell.lower()]
    if kind == "mask" and re.fullmatch(_MASK, cell):
        return int(cell, 16)
    if number and kind == "decimal":
        return float(number.group(1))
    if number and kind in ("whole", "mebibytes"):
        return int(float(number.group(1)) * (1 << 20 if kind == "mebibytes" else 1))
    if _ABSENT.fullmatch(cell):
        return None
    raise ValueError(cell)


def split(line: str, keys: Sequence[str]) -> Dict[str, str]:
    """Cells of a line that should have these columns, of which the last may hold commas; empty when it has fewer."""
    cells = [cell.strip() for cell in line.split(",", len(keys) - 1)]
    return dict(zip(keys, cells)) if len(cells) == len(keys) else {}


def build_row(cells: Dict[str, str]) -> Optional[Tuple[GpuFacts, GpuSample]]:
    """Row of cells by the keys of :data:`COLUMNS`; None without an index: it could not be told whose it is."""
    values: Dict[str, Any] = {}
    odd: Dict[str, str] = {}
    for key, (kind, *_) in COLUMNS.items():
        cell = cells.get(key, "").strip()
        try:
            values[key] = value(kind, cell)
        except ValueError:
            values[key], odd[key] = None, cell[:80]
    if values["index"] is None:
        return None
    values.update(gpu=values["index"], bus_id=values["bus_id"].lower(), odd=odd or None)
    facts = GpuFacts._make(values[name] for name in GpuFacts._fields)
    return facts, GpuSample._make(values[name] for name in GpuSample._fields)


def build_app(cells: Dict[str, str]) -> Optional[GpuProcess]:
    """Process of the cells of :data:`APP_FIELDS`; None without a pid and an address."""
    bus, pid, memory, name = (cells.get(field, "").strip() for field in APP_FIELDS)
    size = _NUMBER.fullmatch(memory)
    if not (re.fullmatch(_BUS_ID, bus) and pid.isdecimal() and len(pid) < 10):
        return None
    return GpuProcess(
        bus.lower(), int(pid), value("mebibytes", memory) if size else None, None, str(value("text", name))
    )


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

    def row(self, facts: GpuFacts, sample: GpuSample) -> Iterator[NamedTuple]:
        """Samples of a row, and what it changes in the faults."""
        lost = next(filter(GONE.search, (sample.odd or {}).values()), None)
        if lost is not None:  # it is listed with this error in every column
            yield from self._fault(GpuFault(facts.gpu, facts.bus_id, lost))
            return
        key = bus_key(facts.bus_id) if facts.bus_id else str(facts.gpu)
        if self._rounds.get(key) == self._round:
            self._round += 1
        self._known[key], self._rounds[key] = facts, self._round
        if self._faults.pop((facts.gpu, facts.bus_id), ""):
            yield GpuFault(facts.gpu, facts.bus_id, "")
        yield from (facts, sample)
        missing = [other for name, other in self._known.items() if self._rounds[name] < self._round - 1]
        for other in missing:
            if (other.gpu, other.bus_id) not in self._faults:
                answer = len(self._known) - len(missing)
                words = "missing from nvidia-smi's list: %d of %d GPUs answer" % (answer, len(self._known))
                yield from self._fault(GpuFault(other.gpu, other.bus_id, words))

    def line(self, line: str) -> Iterator[NamedTuple]:
        """A line that is no row: the fault of a lost GPU, with its index and address as far as known, or a remark."""
        if not GONE.search(line):
            yield Fault("gpus", line[:500], 1)
            return
        named, counted = re.search(_BUS_ID, line), re.search(_INDEX, line)
        bus, index = named.group().lower() if named else "", int(counted.group(1)) if counted else None
        for key, facts in self._known.items():
            if bus_key(bus) == key if bus else facts.gpu == index:
                index, bus = facts.gpu, facts.bus_id
        yield from self._fault(GpuFault(index, bus, line.strip()[:500]))

    def _fault(self, fault: GpuFault) -> Iterator[GpuFault]:
        if self._faults.get(fault[:2]) != fault.text:
            self._faults[fault.gpu, fault.bus_id] = fault.text
            yield fault
