"""Files as a process sees them: a container's paths name others than ours, and ``/proc/PID/root`` leads to them."""

from __future__ import annotations

import os
import posixpath

from collectors.node.files import link

LINKS = 40
"""Symbolic links followed in one path, as the kernel follows them (MAXSYMLINKS)."""


def foreign_mounts(pid: int, proc: str = "/proc") -> str:
    """Name of a process's mount namespace; empty where it is ours, or may not be known."""
    theirs, ours = link("%s/%d/ns/mnt" % (proc, pid)), link(proc + "/self/ns/mnt")
    return theirs if theirs and ours and theirs != ours else ""


def foreign_root(pid: int, proc: str = "/proc") -> str:
    """Folder that is the root of a process in another mount namespace; empty where its paths are ours."""
    return "%s/%d/root" % (proc, pid) if foreign_mounts(pid, proc) else ""


def seen_by(pid: int, path: str, proc: str = "/proc") -> str:
    """An absolute path of a process, so that this side opens what the process would.

    Links are followed here: an absolute one below ``/proc/PID/root`` would lead the kernel back to our own root.
    """
    root = foreign_root(pid, proc)
    return root + resolved(root, path) if root else path


def resolved(root: str, path: str) -> str:
    """``path`` without links, as who has ``root`` for its root would come to it; always below that.

    What is not there stays as it is. A path with too many links ends where they became too many.
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
        target = _target(root + done + "/" + part) if followed < LINKS else ""
        if not target:
            done += "/" + part
            continue
        followed += 1
        if target.startswith("/"):
            done = ""
        parts.extend(target.split("/")[::-1])
    return done or "/"


def _target(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
