"""Chooses the columns of an nvidia-smi query, and parses its rows, with or without units.

Values look like ``97``, ``97 %``, ``627.40 W``, ``0x4``, ``[N/A]``, ``ERR!``. Column names differ between driver
versions, and a single unknown name fails the whole query.
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
    "name": ("text", "name", "gpu_name"),  # last: only a name may contain a comma
}
"""By field of the sample: type of the cells, then nvidia-smi's names of the column, newest first."""

APP_FIELDS = ("gpu_bus_id", "pid", "used_gpu_memory", "process_name")
"""Columns of the compute-apps list, in query order."""

GONE = re.compile(r"GPU is lost|fallen off the bus|Unable to determine the device handle", re.IGNORECASE)
"""Messages about a GPU that no longer responds."""

_REJECTED = r'Field "([^"]*)" is not a valid field to query'
_BUS_ID = r"(?<![0-9a-fA-F:.])(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2,4}:[0-9a-fA-F]{2}\.[0-9a-fA-F]\b"
# In "GPU0000:07:00.0", 0000 belongs to the address and is not an index.
_INDEX = r"\bGPU ?(\d{1,3})(?:(?![\d:])|(?=: ))"
_ABSENT = re.compile(
    r"\[?(N/A|Not (Supported|Available|Found)|None|Insufficient Permissions|.{0,60}deprecated)\]?|-|", re.IGNORECASE
)
_NUMBER = re.compile(r"([-+]?\d{1,12}(?:\.\d{1,9})?)\s*(%|W|MHz|MiB|C)?", re.IGNORECASE)
_MASK = r"0x[0-9a-fA-F]{1,16}"
_TRUTHS = {"yes": True, "1": True, "no": False, "0": False}


def choose(rejected: Collection[str] = ()) -> Dict[str, str]:
    """Columns to query, nvidia-smi's name by ours: for each column the newest name that the driver has not rejected."""
    chosen = ((key, [name for name in names if name not in rejected]) for key, (_, *names) in COLUMNS.items())
    return {key: names[0] for key, names in chosen if names}


def rejected_field(text: str) -> Optional[str]:
    """The field that nvidia-smi rejects as unknown; None if the text is no such message."""
    found = re.search(_REJECTED, text)
    return found.group(1) if found else None


def value(kind: str, cell: str) -> Any:
    """Value of a cell; None (or an empty text) if not available. Raises :class:`ValueError` for an invalid value."""
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
    """Cells of a line by column; the last cell may contain commas. Empty if the line has too few cells."""
    cells = [cell.strip() for cell in line.split(",", len(keys) - 1)]
    return dict(zip(keys, cells)) if len(cells) == len(keys) else {}


def build_row(cells: Dict[str, str]) -> Optional[Tuple[GpuFacts, GpuSample]]:
    """Samples from cells by the keys of :data:`COLUMNS`; None without an index, because the GPU is then unknown."""
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
    """Process from the cells of :data:`APP_FIELDS`; None without a pid and a PCI address."""
    bus, pid, memory, name = (cells.get(field, "").strip() for field in APP_FIELDS)
    size = _NUMBER.fullmatch(memory)
    if not (re.fullmatch(_BUS_ID, bus) and pid.isdecimal() and len(pid) < 10):
        return None
    return GpuProcess(
        bus.lower(), int(pid), value("mebibytes", memory) if size else None, None, str(value("text", name))
    )


class GpuRoster:
    """Tracks which GPUs appear in nvidia-smi's output, and the faults of those that do not.

    A GPU that has ever had a row is expected in every round of nvidia-smi; it is missing after two rounds without a
    row. Its fault is over when it has a row again (a :class:`GpuFault` without a text).
    """

    def __init__(self) -> None:
        self._known: Dict[str, GpuFacts] = {}
        self._round = 0
        """Number of the round; it ends when any GPU has its next row."""
        self._rounds: Dict[str, int] = {}
        """The round of each GPU's last row."""
        self._faults: Dict[Tuple[Optional[int], str], str] = {}

    def row(self, facts: GpuFacts, sample: GpuSample) -> Iterator[NamedTuple]:
        """Samples of a row, and the faults that it starts or ends."""
        lost = next(filter(GONE.search, (sample.odd or {}).values()), None)
        if lost is not None:  # nvidia-smi prints the error in every column
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
        """Fault from a line that is no row: of a lost GPU, with index and address if known, else of the source."""
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
