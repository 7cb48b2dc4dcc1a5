"""Source ``topology``: how the GPUs and NICs of this node are connected, by ``nvidia-smi topo -m``.

The tool prints a matrix, tabs between its cells: a head (``GPU0 GPU1 NIC0 CPU Affinity NUMA Affinity GPU NUMA ID``), a
row a device, then a legend of the words and, for NICs, of their names (``NIC0: mlx5_0``). Drivers before 525 name
the NICs in the head itself. The head is underlined by escape codes on some drivers.
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Dict, Iterator, List, NamedTuple, Tuple

from collectors.node.child import find, run
from collectors.node.files import text
from collectors.node.source import Absent, Failed, NotResponding, Source
from collectors.samples.gpus import Topology

EVERY = 3600.0
"""Seconds between two looks: what is soldered does not move, but a link may be gone after a reset."""
PATIENCE = 20.0
"""Seconds that the tool may take."""
DEVICES = 64
_ESCAPES = re.compile(r"\x1b\[[0-9;]{0,20}m")
_DEVICE = re.compile(r"(?:GPU|NIC)\d{1,3}\Z|mlx\d_\w{1,20}\Z|bnxt_re\w{1,20}\Z|irdma\w{1,20}\Z|efa\w{1,20}\Z")
_LINK = re.compile(r"X\Z|SYS\Z|NODE\Z|PHB\Z|PXB\Z|PIX\Z|NV\d{1,3}\Z")
_NIC_NAME = re.compile(r"\s{0,8}(NIC\d{1,3}): (\S{1,40})\s{0,8}\Z")


class GpuTopology(Source):
    """The matrix of GPUs and NICs."""

    name = "topology"
    period = EVERY
    retry = EVERY
    deadline = 60.0

    def look(self, _now: float) -> Iterator[NamedTuple]:
        """The matrix. Raises :class:`Absent` on a node without nvidia-smi or without a matrix."""
        path = find("nvidia-smi")
        if path is None:
            raise Absent("no nvidia-smi on the PATH")
        ended = run([path, "topo", "-m"], PATIENCE)
        if ended.status is None:
            raise NotResponding("nvidia-smi topo -m gave no answer in %.0f s" % PATIENCE)
        if ended.status != 0:
            raise Failed("nvidia-smi topo -m ended with status %d" % ended.status)
        found = parse(text(ended.stdout))
        if not found.devices:
            raise Absent("nvidia-smi topo -m printed no matrix")
        yield found


def parse(said: str) -> Topology:
    """The matrix in what the tool printed; one without devices where there is none."""
    lines = [_ESCAPES.sub("", line) for line in said.splitlines()]
    names = {found[1]: found[2] for found in map(_NIC_NAME.match, lines) if found}
    head = next((line.split() for line in lines if "Affinity" in line), [])[:DEVICES]
    devices = list(takewhile(_DEVICE.match, head))  # before "CPU Affinity"
    rows: Dict[str, Tuple[List[str], str]] = {}
    for words in map(str.split, lines):
        links, cells = words[1 : len(devices) + 1], words[len(devices) + 1 :]
        if words[:1] and words[0] in devices and len(links) == len(devices) and all(map(_LINK.match, links)):
            # the NUMA node is the cell behind the CPUs' (0-47,96-143)
            rows[words[0]] = links, cells[1] if len(cells) > 1 and cells[1].isdigit() else ""
    if not devices or set(rows) != set(devices):
        return Topology([], [], [])
    links_of, numa_of = zip(*(rows[device] for device in devices))
    return Topology([names.get(device, device) for device in devices], list(links_of), list(numa_of))
