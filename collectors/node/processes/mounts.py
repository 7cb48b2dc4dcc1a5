"""Finds the file system of a path, and whether other nodes share it."""

from __future__ import annotations

import os
import re
from typing import Dict, List, NamedTuple

from collectors.node.files import read_text

SHARED = frozenset(
    "nfs nfs4 lustre gpfs beegfs ceph glusterfs cifs smb3 afs 9p virtiofs wekafs panfs orangefs ocfs2 gfs2 daos".split()
)
"""Types that several nodes mount at once; FUSE types also count, except those in :data:`_LOCAL_FUSE`."""
REREAD = 60.0
"""Seconds after which the mounts are read again."""
_LOCAL_FUSE = frozenset("fuse.lxcfs fuse.fuse-overlayfs fuse.portal fuse.gvfsd-fuse fusectl fuseblk".split())


class Mount(NamedTuple):
    """One mounted file system."""

    folder: str
    kind: str
    source: str

    @property
    def shared(self) -> str:
        """``nfs4 server:/export`` for a file system shared between nodes, empty for a local one."""
        if self.kind in SHARED or (self.kind.startswith("fuse") and self.kind not in _LOCAL_FUSE):
            return "%s %s" % (self.kind, self.source)
        return ""


class Mounts:
    """The mounts of this process's namespace, cached for :data:`REREAD` seconds."""

    def __init__(self, proc: str = "/proc") -> None:
        self._path = proc + "/self/mountinfo"
        self._read_at = float("-inf")
        self._by_folder: Dict[str, Mount] = {}

    def of(self, path: str, now: float) -> Mount:
        """The file system of an absolute path, from its name alone: a call on the path itself might hang."""
        if not 0 <= now - self._read_at <= REREAD:
            self._by_folder = {mount.folder: mount for mount in parse(read_text(self._path))}
            self._read_at = now
        folder = os.path.normpath(path)
        while folder not in self._by_folder and folder not in ("/", "", "."):
            folder = os.path.dirname(folder)
        return self._by_folder.get(folder, Mount("/", "", ""))


def parse(text: str) -> List[Mount]:
    """Mounts of a mountinfo file, in order; a later one on the same folder hides the earlier."""
    mounts: List[Mount] = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) >= 5 and len(kind) >= 2:
            mounts.append(Mount(_unescape(fields[4]), kind[0], _unescape(kind[1])))
    return mounts


def _unescape(text: str) -> str:
    """Decode the octal escapes of blanks, tabs, line feeds and backslashes."""
    return re.sub(r"\\(040|011|012|134)", lambda found: chr(int(found.group(1), 8)), text)
