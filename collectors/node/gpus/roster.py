"""Which GPUs should answer, which do, and what nvidia-smi says in place of those that do not."""

from __future__ import annotations

from typing import Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from collectors.node.gpus.nvidia_smi_rows import GONE, Row, bus_key, device_line, lost_row
from collectors.samples.gpus import GpuFacts, GpuFault
from collectors.samples.stream import Fault

Place = Tuple[Optional[int], str]


class Roster:
    """Follows the sweeps of a streaming nvidia-smi: each prints one row per GPU, and odd lines between them.

    A sweep is over when an index or a line comes again. A GPU that ever gave a row is expected in every sweep from then
    on; when it is missing that is a fault, until it gives a row again (a :class:`GpuFault` with an empty text). A line
    about a GPU that gives its row all the same is a remark and no fault of the GPU.
    """

    def __init__(self) -> None:
        self._known: Dict[str, GpuFacts] = {}
        self._count: Optional[int] = None
        self._rows: Set[str] = set()
        self._last_index = -1
        self._lines: List[str] = []
        self._lost: Dict[Place, str] = {}
        self._faults: Dict[Place, str] = {}

    def row(self, row: Row) -> Iterator[NamedTuple]:
        """Take a row; gives its samples, and before them the faults of the sweep that it ends."""
        if row.facts.gpu <= self._last_index:
            yield from self._end_sweep()
        self._last_index = row.facts.gpu
        self._count = row.gpus
        fault = lost_row(row)
        if fault is not None:
            self._lost[fault.gpu, fault.bus_id] = fault.text
            yield from self._say_fault((fault.gpu, fault.bus_id), fault.text)
            return
        key = _key(row.facts)
        self._rows.add(key)
        self._known[key] = row.facts
        place = (row.facts.gpu, row.facts.bus_id)
        if self._faults.pop(place, ""):
            yield GpuFault(*place, "")
        yield row.facts
        yield row.sample

    def line(self, line: str) -> Iterator[NamedTuple]:
        """Take a line that is no row; gives the faults of the sweep that it ends, and at once that of a lost GPU."""
        if line in self._lines:
            yield from self._end_sweep()
        if GONE.search(line):  # it stands where the GPU's row would: a remark stands anywhere
            index = self._placed(line).gpu
            if index is not None and index <= self._last_index:
                yield from self._end_sweep()
            self._last_index = self._last_index if index is None else index
            fault = self._fault(line)
            if fault is not None:
                yield from self._say_fault((fault.gpu, fault.bus_id), fault.text)
        self._lines.append(line)

    def broken_off(self) -> Iterator[NamedTuple]:
        """The stream ended: what its last lines say counts, but a sweep cut short says nothing of the missing."""
        for place, text in self._told().items():
            yield from self._say_fault(place, text)
        yield from self._remarks()
        self._begin_sweep()

    def _begin_sweep(self) -> None:
        self._rows, self._lines, self._lost, self._last_index = set(), [], {}, -1

    def _end_sweep(self) -> Iterator[NamedTuple]:
        """What changed in the faults now that everything that will answer has answered."""
        now = {**self._missing(), **self._told()}
        for place in [place for place in self._faults if place not in now]:
            del self._faults[place]
            yield GpuFault(*place, "")
        for place, text in now.items():
            yield from self._say_fault(place, text)
        yield from self._remarks()
        self._begin_sweep()

    def _say_fault(self, place: Place, text: str) -> Iterator[GpuFault]:
        if self._faults.get(place) != text:
            self._faults[place] = text
            yield GpuFault(*place, text)

    def _told(self) -> Dict[Place, str]:
        """Faults that rows and lines of this sweep tell."""
        told = dict(self._lost)
        for line in self._lines:
            fault = self._fault(line)
            if fault is not None:
                told[fault.gpu, fault.bus_id] = fault.text
        return told

    def _remarks(self) -> Iterator[Fault]:
        for line in self._lines:
            if self._fault(line) is None:
                yield Fault("gpus", line[:500], 1)

    def _missing(self) -> Dict[Place, str]:
        """GPUs of which neither a row nor a line came."""
        missing: Dict[Place, str] = {}
        for key, facts in self._known.items():
            if key not in self._rows:
                missing[facts.gpu, facts.bus_id] = "missing from nvidia-smi's list: %d of %d GPUs answer" % (
                    len(self._rows),
                    len(self._known),
                )
        never = (self._count or 0) - len(self._known)
        if never > 0 and not self._told():
            missing[None, ""] = "nvidia-smi counts %d GPUs and gives rows of %d" % (self._count or 0, len(self._known))
        return missing

    def _fault(self, line: str) -> Optional[GpuFault]:
        """The fault that a line tells; None for a remark."""
        fault = self._placed(line)
        if bus_key(fault.bus_id) in self._known:
            return None if bus_key(fault.bus_id) in self._rows else fault
        return fault if GONE.search(line) else None

    def _placed(self, line: str) -> GpuFault:
        """What a line says, with the index and the address that earlier rows gave the GPU that it names."""
        fault = device_line(line)
        for key, facts in self._known.items():
            if (fault.bus_id and bus_key(fault.bus_id) == key) or (not fault.bus_id and facts.gpu == fault.gpu):
                return GpuFault(facts.gpu, facts.bus_id, fault.text)
        return fault


def _key(facts: GpuFacts) -> str:
    return bus_key(facts.bus_id) if facts.bus_id else str(facts.gpu)
