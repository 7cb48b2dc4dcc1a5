"""Files and sockets from a process's view: in a container its paths and its ``localhost`` differ from ours."""

from __future__ import annotations

import os
import posixpath
import threading
from typing import Callable, List, TypeVar

from collectors.node.files import link

LINKS = 40
"""Symbolic links followed in one path, as the kernel follows them (MAXSYMLINKS)."""
_CLONE_NEWNET = 0x40000000

T = TypeVar("T")


def foreign_namespace(pid: int, kind: str, proc: str = "/proc") -> str:
    """Name of a process's namespace, ``kind`` is ``mnt`` or ``net``; empty if the namespace is ours or unreadable."""
    theirs, ours = link("%s/%d/ns/%s" % (proc, pid, kind)), link("%s/self/ns/%s" % (proc, kind))
    return theirs if theirs and ours and theirs != ours else ""


# --- files -----------------------------------------------------------------------------------------------------------


def foreign_root(pid: int, proc: str = "/proc") -> str:
    """Root folder of a process in another mount namespace, ``/proc/PID/root``; empty if it shares ours."""
    return "%s/%d/root" % (proc, pid) if foreign_namespace(pid, "mnt", proc) else ""


def seen_by(pid: int, path: str, proc: str = "/proc") -> str:
    """Translate an absolute path of a process, so that opening it here opens the process's file.

    Links are resolved here: the kernel would resolve an absolute link below ``/proc/PID/root`` from our own root.
    """
    root = foreign_root(pid, proc)
    return root + resolved(root, path) if root else path


def resolved(root: str, path: str) -> str:
    """Resolve the links in ``path`` as a process with root folder ``root`` would; the result is always below ``root``.

    Missing parts stay unchanged. After :data:`LINKS` links no further link is followed.
    """
    done = ""
    parts = path.split("/")[::-1]
    followed = 0
    while parts:
        part = parts.pop()
        if part in ("", "."):
            continue
        if part == "..":
            done = posixpath.dirname(done).rstrip("/")
            continue
        target = link(root + done + "/" + part) if followed < LINKS else ""
        if not target:
            done += "/" + part
            continue
        followed += 1
        if target.startswith("/"):
            done = ""
        parts.extend(target.split("/")[::-1])
    return done or "/"


# --- sockets ---------------------------------------------------------------------------------------------------------


def in_network_of(pid: int, make: Callable[[], T], proc: str = "/proc") -> T:
    """Call ``make`` in the network namespace of a process; a socket made there stays in it, whichever thread uses it.

    A new thread enters that namespace (``setns`` moves only the calling thread), calls ``make`` and ends. Only root may
    enter another namespace; in our own, ``make`` is called directly. Raises :class:`OSError`, also if the namespace may
    not be entered.
    """
    if not foreign_namespace(pid, "net", proc):
        return make()
    made: List[T] = []
    failed: List[OSError] = []

    def go() -> None:
        try:
            _enter("%s/%d/ns/net" % (proc, pid))
            made.append(make())
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]


def _enter(namespace: str) -> None:
    import ctypes  # not every Python has it

    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        call = ctypes.CDLL(None, use_errno=True)
        if call.setns(descriptor, _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, "its network namespace may not be entered: " + os.strerror(number))
    finally:
        os.close(descriptor)
