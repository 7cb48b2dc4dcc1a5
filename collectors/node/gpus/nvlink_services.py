"""Source ``nvlink``: the daemons that NVLink fabrics need, and how far each GPU has come in joining its fabric.

``nvidia-fabricmanager`` runs where NVSwitches are on this node's PCI bus (HGX A100 to H200:
``/dev/nvidia-nvswitch0`` …), or where it configures those that are not (HGX B200); ``nvidia-imex`` where several nodes
share memory over NVLink (GB200: ``/dev/nvidia-caps-imex-channels``). Nothing here needs rights: the list of processes
tells, else ``systemctl is-active``; that no process is there counts only where the list is the host's, for a container
does not see the host's daemons.
"""

from __future__ import annotations

import os
import re
from typing import Iterator, List, NamedTuple, Optional

from collectors.node.child import find, run
from collectors.node.files import list_folder, read_or_none, read_text, text
from collectors.node.shared import Shared
from collectors.node.source import Absent, Source
from collectors.samples.gpus import FabricService, GpuFabric

EVERY = 30.0
"""Seconds between two looks."""
PATIENCE = 20.0
"""Seconds that one tool may take."""
FIELDS = ("index", "fabric.state", "fabric.status", "fabric.health.summary")
"""The last one is known since driver 550; on older ones the daemons alone are told."""
NO_FABRIC = ("", "N/A", "[N/A]", "Not Supported", "[Not Supported]")
MANAGER, IMEX = "nvidia-fabricmanager", "nvidia-imex"
_COMMS = {MANAGER: (b"nv-fabricmanage", b"nvidia-fabricma"), IMEX: (b"nvidia-imex",)}
"""Names of their processes, cut off at 15 characters as the kernel does."""
CHANNELS = "nvidia-caps-imex-channels"
_SWITCH = re.compile(r"nvidia-nvswitch\d{1,4}\Z")
_DOWN = ("failed", "inactive", "deactivating")


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
        switches = [name for name in list_folder(self._dev) if _SWITCH.match(name)]
        channels = [name for name in list_folder(self._dev + "/" + CHANNELS) if name.startswith("channel")]
        if not os.path.exists(self._dev + "/nvidiactl"):
            raise Absent("no NVIDIA driver on this node (/dev/nvidiactl)")
        rows = self._ask()
        gpus = [GpuFabric(int(row[0]), *row[1:]) for row in rows]
        joined = [gpu for gpu in gpus if gpu.state not in NO_FABRIC]
        if not switches and not channels and not joined:
            raise Absent("the GPUs of this node are on no NVLink fabric")
        yield from gpus
        shown = "/dev/%s" % switches[0] if switches else ""
        if switches or joined:
            yield self._service(MANAGER, "%s%s" % (shown, " and %d more" % (len(switches) - 1) if switches[1:] else ""))
        if channels:
            yield self._service(IMEX, "/dev/%s/%s" % (CHANNELS, channels[0]))

    def _ask(self) -> List[List[str]]:
        """Rows of nvidia-smi, a cell each of the fields asked for; none where it tells nothing of the kind."""
        path = find("nvidia-smi")
        if path is None:
            return []
        said = text(run([path, "--query-gpu=" + ",".join(FIELDS), "--format=csv,noheader"], PATIENCE).stdout)
        rows = [[cell.strip() for cell in line.split(",")] for line in said.splitlines()]
        return [row for row in rows if len(row) == len(FIELDS) and row[0].isdecimal() and len(row[0]) < 5]

    def _service(self, name: str, needed: str) -> FabricService:
        pid = self._process(name)
        if pid is not None:
            if name == IMEX and (word := self._imex()) not in ("", "READY"):
                return FabricService(name, "down", needed, "nvidia-imex-ctl: %s" % word)
            return FabricService(name, "running", needed, "process %d" % pid)
        word = self._unit(name)
        if word == "active":
            return FabricService(name, "running", needed, "systemctl: active")
        if word in _DOWN:
            return FabricService(name, "down", needed, "systemctl: %s" % word)
        if read_text(self.proc + "/1/comm") in ("systemd", "init"):
            return FabricService(name, "down", needed, "no process of that name runs")
        return FabricService(name, "unknown", needed, "the host's processes are not seen from here")

    def _process(self, name: str) -> Optional[int]:
        for pid in filter(str.isdigit, list_folder(self.proc)):
            comm = read_or_none("%s/%s/comm" % (self.proc, pid))
            if comm is not None and comm.rstrip(b"\n") in _COMMS[name]:
                return int(pid)
        return None

    def _unit(self, name: str) -> str:
        """What systemd calls its state; empty where systemd cannot be asked or has no such unit file."""
        path = find("systemctl")
        if path is None:
            return ""
        word = text(run([path, "is-active", name + ".service"], PATIENCE).stdout).strip()
        if word != "inactive":
            return word
        known = text(run([path, "is-enabled", name + ".service"], PATIENCE).stdout).strip()
        return word if known not in ("", "not-found") else ""

    @staticmethod
    def _imex() -> str:
        """The state that ``nvidia-imex-ctl -q`` prints; empty where it prints none."""
        path = find("nvidia-imex-ctl")
        ended = None if path is None else run([path, "-q"], PATIENCE)
        word = "" if ended is None or ended.status != 0 else text(ended.stdout).strip()
        return word if word.replace("_", "").isalpha() and word.isupper() else ""
