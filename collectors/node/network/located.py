"""Source ``location``: where Slurm's ``topology.conf`` on this node says that it hangs.

``scontrol`` is not asked from here: thousands of nodes at once would be felt by slurmctld.
"""

from __future__ import annotations

import os
import socket
from typing import Iterable, Iterator, NamedTuple, Tuple

from collectors.node.files import read_named, text
from collectors.node.network.topology_conf import read
from collectors.node.shared import Shared
from collectors.node.source import Absent, Source

FOLDERS = ("/etc/slurm", "/run/slurm/conf", "/etc/slurm-llnl", "/opt/slurm/etc", "/usr/local/etc")
"""Where it lies, beside that of the job's own SLURM_CONF; the second is that of clusters without files of their own."""
SOURCE = "topology.conf"


class LocationSource(Source):
    """The node's leaf, block and what is above."""

    name = "location"
    period = 300.0
    retry = 300.0
    deadline = 20.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys", root: str = "") -> None:
        super().__init__(shared, proc, sys)
        self._root = root

    def look(self, _now: float) -> Iterable[NamedTuple]:
        """Locations of this node. Raises :class:`Absent` where no file names it."""
        for path, uid in self._paths():
            said = read_named(self._root + path, uid, 8 << 20)
            places = read(text(said), SOURCE) if said is not None else {}
            for name in self._names():
                if name in places:
                    return places[name]
        raise Absent("no topology.conf of Slurm names this node")

    def _paths(self) -> Iterator[Tuple[str, int]]:
        """Where it may lie, and who says so."""
        settings = [(rank.env.get("SLURM_CONF", ""), rank.uid) for rank in self.shared.ranks]
        settings.append((os.environ.get("SLURM_CONF", ""), os.geteuid()))
        folders = [(os.path.dirname(setting), uid) for setting, uid in settings if setting.startswith("/")]
        for folder, uid in dict.fromkeys([*folders, *((folder, os.geteuid()) for folder in FOLDERS)]):
            yield "%s/topology.conf" % folder, uid

    def _names(self) -> Iterator[str]:
        for rank in self.shared.ranks:
            yield rank.env.get("SLURMD_NODENAME", "")
        hostname = socket.gethostname()
        yield hostname
        yield hostname.partition(".")[0]
