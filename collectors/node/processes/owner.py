"""As whom a rank runs, and how a child becomes that user before it loads anything of the rank's.

The interpreter, PATH, ``LD_*`` and ``PYTHON*`` of a rank are its user's: whoever lets them into a process of root's
gives root to that user.
"""

from __future__ import annotations

import os
import struct
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from collectors.node.files import link, read_or_none, text
from collectors.node.processes.procfs import parse_stat

_NO_NEW_PRIVS = 38
"""Option of prctl(2): no program that is run from now on has more rights than who runs it."""
_AT_SECURE = 23
"""Entry of the auxiliary vector (getauxval(3)): the program was started with more rights than its caller has."""


class ProcessOwner(NamedTuple):
    """Whose process it is."""

    uid: int
    gid: int
    groups: Tuple[int, ...]
    started: int
    """Clock ticks since boot: a pid that was given anew has another one."""


def owner_of(pid: int, proc: str = "/proc") -> Optional[ProcessOwner]:
    """Owner of a process; None when it is gone, or is not simply somebody's.

    Not simply somebody's is one whose user ids differ, or whose program had more rights than who started it (a setuid
    program): its environment and its name may have come from somebody else.
    """
    folder = "%s/%d" % (proc, pid)
    fields: Dict[str, List[str]] = {}
    for line in text(read_or_none(folder + "/status") or b"").splitlines():
        name, _, rest = line.partition(":")
        fields[name] = rest.split()
    stat = parse_stat(read_or_none(folder + "/stat") or b"")
    uids, gids = fields.get("Uid", []), fields.get("Gid", [])
    if stat is None or len(set(uids)) != 1 or len(set(gids)) != 1 or _is_secure(folder):
        return None
    return ProcessOwner(int(uids[0]), int(gids[0]), tuple(map(int, fields.get("Groups", []))), stat.start_ticks)


def may_be_imitated(pid: int, owner: ProcessOwner, proc: str = "/proc") -> bool:
    """True where a program may run with what this process has, once it runs as its owner.

    As root: of root's own only what is on the host as we are. Root in a container has fewer rights than we, and its
    paths lead elsewhere. Of others everything, but nothing from a container whose root is root here as well: devices
    that he makes may be opened by whoever is out of the container. A container with a user namespace of its own has no
    such root. As anybody else: one's own alone.
    """
    if os.geteuid() != 0:
        return owner.uid == os.geteuid()
    ours = {
        place: link("%s/%d/%s" % (proc, pid, place)) == link("%s/self/%s" % (proc, place)) != ""
        for place in ("ns/mnt", "ns/user", "ns/pid", "root")  # "root": another one with chroot alone
    }
    if owner.uid == 0:
        return all(ours.values())
    return ours["ns/mnt"] or not ours["ns/user"]


def becoming(owner: Optional[ProcessOwner]) -> Callable[[], None]:
    """What a child calls between fork and exec to run as that user: nothing where this is not root, or it is root's.

    Before it asks for a parent-death signal: a change of user takes that away. Setuid programs do not help that user:
    in a folder that a container shares with the node he may have been root.
    """
    if owner is None or os.geteuid() != 0 or owner.uid == 0:
        return lambda: None
    import ctypes  # not every Python has it

    uid, gid, groups = owner.uid, owner.gid, list(owner.groups)
    prctl = ctypes.CDLL(None).prctl

    def become() -> None:
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        if prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise OSError(0, "the kernel does not let it do without more rights")

    return become


def _is_secure(folder: str) -> bool:
    """True for a program that was started with more rights than its caller has, and where that cannot be told."""
    data = read_or_none(folder + "/auxv")
    if not data:
        return True
    entries: Dict[int, int] = dict(struct.iter_unpack("@LL", data[: len(data) // 16 * 16]))
    return entries.get(_AT_SECURE, 1) != 0
