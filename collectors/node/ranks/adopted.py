"""Processes whose parent ended: an init adopts them, and that is all that is left to see of whoever started them."""

from __future__ import annotations

from collectors.node.files import link
from collectors.node.processes.procfs import Stat
from collectors.node.ranks.process_metrics import read_stat
from collectors.node.ranks.process_tree import is_python


class Adopters:
    """Tells the inits of one /proc from parents that started something themselves."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        # In a container the first process may be the launcher itself: being its child is no sign of an orphan then.
        self._init_adopts = not is_python(link(proc + "/1/exe"), [])

    def adopted(self, stat: Stat) -> bool:
        """True when an init is the parent: nobody who started the process is left."""
        if stat.parent == 1:
            return self._init_adopts
        if stat.parent == 0:
            return False
        parent = read_stat(self._proc, stat.parent)
        return parent is not None and parent.comm == "systemd"
