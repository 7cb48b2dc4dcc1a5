"""Sources ``nvlink`` (daemons and state of NVLink fabrics) and ``topology`` (connections between GPUs and NICs).

``nvidia-fabricmanager`` runs on nodes with NVSwitches on the PCI bus (HGX A100 to H200: ``/dev/nvidia-nvswitch0`` …) or
whose NVSwitches it configures otherwise (HGX B200); ``nvidia-imex`` runs where several nodes share memory over NVLink
(GB200: ``/dev/nvidia-caps-imex-channels``). The process list shows whether they run. A missing daemon counts only in
the host's process list, because a container does not see the host's daemons.

``nvidia-smi topo -m`` prints a matrix with tabs between its cells: a header (``GPU0 GPU1 NIC0 CPU Affinity NUMA
Affinity``), one row per device, then a legend with the names of NICs (``NIC0: mlx5_0``). Some drivers underline the
header with escape codes.
"""

from __future__ import annotations

import os
import re
from itertools import takewhile
from typing import Dict, Iterator, NamedTuple

from collectors.node.child import output
from collectors.node.files import list_folder, read_text
from collectors.node.source import Absent, Failed, Shared, Source
from collectors.samples.host import Reading

EVERY = 30.0
"""Seconds between two reads of the fabric."""
PATIENCE = 20.0
"""Seconds that nvidia-smi may take."""
FIELDS = ("index", "fabric.state", "fabric.status", "fabric.health.summary")
VALUES = ("state", "status", "health")
"""``health`` exists since driver 550; on older drivers the query fails, and only the daemons are reported."""
NO_FABRIC = ("", "N/A", "[N/A]", "Not Supported", "[Not Supported]")
MANAGER, IMEX = "nvidia-fabricmanager", "nvidia-imex"
_COMMS = {MANAGER: ("nv-fabricmanage", "nvidia-fabricma"), IMEX: ("nvidia-imex",)}
"""Their process names, truncated to 15 characters as by the kernel."""
CHANNELS = "nvidia-caps-imex-channels"

TOPOLOGY_EVERY = 3600.0
"""Seconds between two matrices: links rarely change, but one may be missing after a reset."""
DEVICES = 64
_ESCAPES = re.compile(r"\x1b\[[0-9;]{0,20}m")
_DEVICE = re.compile(r"(?:GPU|NIC)\d{1,3}\Z")
_LINK = re.compile(r"X\Z|SYS\Z|NODE\Z|PHB\Z|PXB\Z|PIX\Z|NV\d{1,3}\Z")
_NIC_NAME = re.compile(r"\s{0,8}(NIC\d{1,3}): (\S{1,40})\s{0,8}\Z")


class NvlinkServices(Source):
    """Fabric Manager, IMEX, and the fabric state of each GPU."""

    name = "nvlink"
    period = EVERY
    retry = 300.0
    deadline = 60.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys", dev: str = "/dev") -> None:
        super().__init__(shared, proc, sys)
        self._dev = dev

    def read(self, _now: float) -> Iterator[NamedTuple]:
        """The fabric and its services. Raises :class:`Absent` on a node without NVIDIA's driver or a fabric."""
        if not os.path.exists(self._dev + "/nvidiactl"):
            raise Absent("no NVIDIA driver on this node (/dev/nvidiactl)")
        switches = [name for name in list_folder(self._dev) if re.match(r"nvidia-nvswitch\d{1,4}\Z", name)]
        channels = [name for name in list_folder(self._dev + "/" + CHANNELS) if name.startswith("channel")]
        query = "--query-gpu=" + ",".join(FIELDS)
        printed, _ = output("nvidia-smi", query, "--format=csv,noheader", seconds=PATIENCE)
        rows = [[cell.strip() for cell in line.split(",")] for line in printed.splitlines()]
        rows = [row for row in rows if len(row) == len(FIELDS) and row[0].isdecimal() and len(row[0]) < 5]
        joined = any(row[1] not in NO_FABRIC for row in rows)
        if not switches and not channels and not joined:
            raise Absent("the GPUs of this node are on no NVLink fabric")
        for index, *words in rows:
            yield Reading(self.name, "GPU " + index, {"gpu": int(index), **dict(zip(VALUES, words))})
        if switches or joined:
            more = " and %d more" % (len(switches) - 1) if switches[1:] else ""
            yield self._service(MANAGER, "/dev/%s%s" % (switches[0], more) if switches else "")
        if channels:
            yield self._service(IMEX, "/dev/%s/%s" % (CHANNELS, channels[0]))

    def _service(self, name: str, needed: str) -> Reading:
        for pid in filter(str.isdigit, list_folder(self.proc)):
            if read_text("%s/%s/comm" % (self.proc, pid)) in _COMMS[name]:
                state, said = "running", "process " + pid
                break
        else:
            hosts = read_text(self.proc + "/1/comm") in ("systemd", "init")
            state = "down" if hosts else "unknown"
            said = "no process of that name runs" if hosts else "the host's processes are not seen from here"
        return Reading(self.name, name, {"state": state, "needed": needed, "said": said})


class GpuTopology(Source):
    """The matrix of GPUs and NICs."""

    name = "topology"
    period = retry = TOPOLOGY_EVERY
    deadline = 60.0

    def read(self, _now: float) -> Iterator[NamedTuple]:
        """The matrix. Raises :class:`Absent` on a node without nvidia-smi or without a matrix."""
        printed, why = output("nvidia-smi", "topo", "-m", seconds=PATIENCE)
        if why:
            raise Failed("nvidia-smi topo -m: " + why)
        found = parse_topology(printed)
        if not found:
            raise Absent("nvidia-smi topo -m printed no matrix")
        yield from (Reading(self.name, device, dict(links)) for device, links in found.items())


def parse_topology(said: str) -> Dict[str, Dict[str, str]]:
    """Parse the tool's matrix: for each device its link to every device, and its NUMA node, ``numa``.

    A link is ``X`` (itself), ``NV18`` (18 NVLinks), ``PIX``, ``PXB``, ``PHB``, ``NODE`` or ``SYS``. Empty without a
    complete matrix.
    """
    lines = [_ESCAPES.sub("", line) for line in said.splitlines()]
    names = {found[1]: found[2] for found in map(_NIC_NAME.match, lines) if found}
    head = next((line.split() for line in lines if "Affinity" in line), [])[:DEVICES]
    devices = list(takewhile(_DEVICE.match, head))  # before "CPU Affinity"
    named = [names.get(device, device) for device in devices]
    rows: Dict[str, Dict[str, str]] = {}
    for words in map(str.split, lines):
        links, cells = words[1 : len(devices) + 1], words[len(devices) + 1 :]
        if words[:1] and words[0] in devices and len(links) == len(devices) and all(map(_LINK.match, links)):
            # the NUMA node follows the CPU list (0-47,96-143)
            numa = cells[1] if len(cells) > 1 and cells[1].isdigit() else ""
            rows[names.get(words[0], words[0])] = dict(zip(named, links), numa=numa)
    return rows if len(rows) == len(devices) else {}
