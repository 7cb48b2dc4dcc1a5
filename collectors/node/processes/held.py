"""Files of one process in /proc that are read every second: kept open, a look is one system call instead of four."""

from __future__ import annotations

import os
from typing import Dict, Optional

from collectors.node.files import read_or_none

SIZE = 8192
"""Bytes of one read: what is read this way is a quarter of it, and given whole by one read."""
PROCESSES = 32
"""Processes whose files are kept open; of further ones they are opened each time."""


class Held:
    """The files of one process. They stay those of this very process when its pid becomes another's."""

    _processes = 0

    __slots__ = ("_base", "_files")

    def __init__(self, proc: str, pid: int) -> None:
        self._base = "%s/%d/" % (proc, pid)
        self._files: Optional[Dict[str, int]] = None

    def keep(self) -> None:
        """Keep files open from now on, if not too many are."""
        if self._files is None and Held._processes < PROCESSES:
            Held._processes += 1
            self._files = {}

    def read(self, name: str) -> Optional[bytes]:
        """Contents of a file; None when the process is gone, or where it may not be read."""
        files = self._files
        if files is None:
            return read_or_none(self._base + name)
        try:
            file = files.get(name)
            if file is None:
                file = files[name] = os.open(self._base + name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            return os.pread(file, SIZE, 0)
        except OSError:
            return None

    def close(self) -> None:
        """Let go of them."""
        files, self._files = self._files, None
        if files is not None:
            Held._processes -= 1
            for file in files.values():
                os.close(file)
