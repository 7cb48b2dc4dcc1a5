"""AMD's GPUs, in the same samples as NVIDIA's: by sysfs, and by amd-smi where that tells no use."""

from __future__ import annotations

import time
from typing import Dict, Iterator, List, NamedTuple, Optional

from collectors.node.child import ChildEnded, find
from collectors.node.files import text
from collectors.node.gpus import amd_smi, amd_sysfs
from collectors.node.shared import Shared
from collectors.node.tool import Query
from collectors.samples.gpus import GpuFault, GpuProcess, GpuProcesses
from collectors.samples.stream import Fault

RESCAN = 30.0
"""Seconds between two looks for new GPUs, and at what does not move."""
APPS_PERIOD = 5.0
"""Seconds between two looks at who computes."""
SMI_PERIOD = 5.0
"""amd-smi is a Python program that takes a second of a core: not oftener."""
PATIENCE = 30.0
"""Seconds that one tool may take."""
PLACES = ("/opt/rocm/bin",)
"""Where it lies beside the usual folders."""


class AmdGpus:
    """GPUs of one node."""

    def __init__(self, shared: Shared, proc: str, sys: str) -> None:
        self._shared = shared
        self._proc = proc
        self._sys = sys
        self._cards: List[amd_sysfs.AmdCard] = []
        self._faults: Dict[int, str] = {}
        self._scanned = self._apps = float("-inf")
        self._rescanned = False
        self._tool: Optional[_AmdSmi] = None

    def there(self) -> bool:
        """True where the node has such GPUs."""
        moment = time.monotonic()
        if moment - self._scanned > RESCAN:
            self._scanned, self._rescanned = moment, True
            found = amd_sysfs.cards(self._sys)
            # One that is gone from sysfs stays: that it does not answer any more is what counts.
            if {card.bus_id for card in found} - {card.bus_id for card in self._cards}:
                self._cards = found
        return bool(self._cards)

    def look(self) -> Iterator[NamedTuple]:
        """Rows of all GPUs, and who is on them."""
        moment = time.monotonic()
        rescanned, self._rescanned = self._rescanned, False
        lacking = False
        for card in self._cards:
            try:
                row = amd_sysfs.sample(card)
            except (OSError, ValueError) as error:
                why = amd_sysfs.why_not(error) if isinstance(error, OSError) else "amdgpu: no figure of its memory"
                if self._faults.get(card.gpu) != why:
                    self._faults[card.gpu] = why
                    yield GpuFault(card.gpu, card.bus_id, why)
                continue
            if self._faults.pop(card.gpu, ""):
                yield GpuFault(card.gpu, card.bus_id, "")
            if rescanned:
                yield amd_sysfs.facts(card, self._sys)
            lacking = lacking or row.utilization is None
            if row.utilization is not None:
                yield row
        if lacking:
            yield from self._by_tool(moment)
        elif moment - self._apps > APPS_PERIOD:
            self._apps = moment
            yield self._told(list(amd_sysfs.processes(self._sys, self._proc)))

    def _told(self, processes: List[GpuProcess]) -> GpuProcesses:
        self._shared.computing = frozenset(process.pid for process in processes)
        return GpuProcesses(processes)

    def _by_tool(self, moment: float) -> Iterator[NamedTuple]:
        if self._tool is None:
            path = find("amd-smi", PLACES)
            if path is None:
                yield Fault("gpus", "the driver tells no use of AMD's GPUs, and there is no amd-smi", 1)
                return
            self._tool = _AmdSmi(path, {card.gpu: card.bus_id for card in self._cards})
        for sample in self._tool.look(moment):
            yield self._told(sample.processes) if isinstance(sample, GpuProcesses) else sample

    def close(self) -> None:
        """End what runs."""
        if self._tool is not None:
            self._tool.close()


class _AmdSmi:
    """amd-smi, asked again and again, one question at a time."""

    def __init__(self, path: str, buses: Dict[int, str]) -> None:
        self._buses = buses
        self._due = float("-inf")
        self._metric = Query([path, "metric", "--json"], patience=PATIENCE)
        self._process = Query([path, "process", "--json"], patience=PATIENCE)

    def look(self, moment: float) -> Iterator[NamedTuple]:
        """What its answers say that have come."""
        for query, samples in ((self._metric, self._rows), (self._process, self._who)):
            ended = query.answer()
            if ended is not None:
                yield from samples(ended)
        if moment - self._due > SMI_PERIOD and not self._metric.waits and not self._process.waits:
            self._due = moment
            self._metric.ask()
            self._process.ask()

    def _rows(self, ended: ChildEnded) -> Iterator[NamedTuple]:
        rows = [amd_smi.sample(item) for item in amd_smi.items(text(ended.stdout))]
        if not rows:
            said = (text(ended.stderr) or text(ended.stdout)).strip()[:200] or "status %s" % ended.status
            yield Fault("gpus", "amd-smi gave no figures: %s" % said, 1)
        yield from rows

    def _who(self, ended: ChildEnded) -> Iterator[NamedTuple]:
        listed = amd_smi.items(text(ended.stdout))
        yield GpuProcesses([
            process for item in listed if item["gpu"] in self._buses
            for process in amd_smi.processes(item, self._buses[item["gpu"]])
        ])  # fmt: skip

    def close(self) -> None:
        """Forget the questions."""
        self._metric.close()
        self._process.close()
