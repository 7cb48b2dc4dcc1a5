"""Source ``nvlink``: the daemons that NVLink fabrics need, and how far each GPU has come in joining its fabric.

``nvidia-fabricmanager`` runs where NVSwitches are on this node's PCI bus (HGX A100 to H200:
``/dev/nvidia-nvswitch0`` …), or where it configures those that are not (HGX B200); ``nvidia-imex`` where several nodes
share memory over NVLink (GB200: ``/dev/nvidia-caps-imex-channels``). The list of processes tells whether they run; that
one is not there counts only where the list is the host's, for a container does not see the host's daemons.
"""

from __future__ import annotations

import os
import re
from typing import Iterator, List, NamedTuple

from collectors.node.child import find, run
from collectors.node.files import list_folder, read_text, text
from collectors.node.source import Absent, Shared, Source
from collectors.samples.gpus import FabricService, GpuFabric

EVERY = 30.0
"""Seconds between two looks."""
PATIENCE = 20.0
"""Seconds that nvidia-smi may take."""
FIELDS = ("index", "fabric.state", "fabric.status", "fabric.health.summary")
"""The last one is known since driver 550; on older ones the daemons alone are told."""
NO_FABRIC = ("", "N/A", "[N/A]", "Not Supported", "[Not Supported]")
MANAGER, IMEX = "nvidia-fabricmanager", "nvidia-imex"
_COMMS = {MANAGER: ("nv-fabricmanage", "nvidia-fabricma"), IMEX: ("nvidia-imex",)}
"""Names of their processes, cut off at 15 characters as the kernel does."""
CHANNELS = "nvidia-caps-imex-channels"
_SWITCH = re.compile(r"nvidia-nvswitch\d{1,4}\Z")


class NvlinkServices(Source):
    """Fabric Manager, IMEX, and the fabric as the GPUs see it."""

    name = "nvlink"
    period = EVERY
    retry = 300.0
    deadline = 60.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys", dev: str = "/dev") -> None:
        super().__init__(shared, proc, sys)
        self._dev = dev

    def look(self, _now: float) -> Iterator[NamedTuple]:
        """The fabric and its services. Raises :class:`Absent` on a node without NVIDIA's driver or a fabric."""
        if not os.path.exists(self._dev + "/nvidiactl"):
            raise Absent("no NVIDIA driver on this node (/dev/nvidiactl)")
        switches = [name for name in list_folder(self._dev) if _SWITCH.match(name)]
        channels = [name for name in list_folder(self._dev + "/" + CHANNELS) if name.startswith("channel")]
        gpus = [GpuFabric(int(row[0]), *row[1:]) for row in self._rows()]
        joined = any(gpu.state not in NO_FABRIC for gpu in gpus)
        if not switches and not channels and not joined:
            raise Absent("the GPUs of this node are on no NVLink fabric")
        yield from gpus
        if switches or joined:
            more = " and %d more" % (len(switches) - 1) if switches[1:] else ""
            yield self._service(MANAGER, "/dev/%s%s" % (switches[0], more) if switches else "")
        if channels:
            yield self._service(IMEX, "/dev/%s/%s" % (CHANNELS, channels[0]))

    def _rows(self) -> List[List[str]]:
        """Rows of nvidia-smi, a cell each of the fields asked for; none where it tells nothing of the kind."""
        path = find("nvidia-smi")
        if path is None:
            return []
        said = text(run([path, "--query-gpu=" + ",".join(FIELDS), "--format=csv,noheader"], PATIENCE).stdout)
        rows = [[cell.strip() for cell in line.split(",")] for line in said.splitlines()]
        return [row for row in rows if len(row) == len(FIELDS) and row[0].isdecimal() and len(row[0]) < 5]

    def _service(self, name: str, needed: str) -> FabricService:
        for pid in filter(str.isdigit, list_folder(self.proc)):
            if read_text("%s/%s/comm" % (self.proc, pid)) in _COMMS[name]:
                return FabricService(name, "running", needed, "process " + pid)
        if read_text(self.proc + "/1/comm") in ("systemd", "init"):
            return FabricService(name, "down", needed, "no process of that name runs")
        return FabricService(name, "unknown", needed, "the host's processes are not seen from here")
