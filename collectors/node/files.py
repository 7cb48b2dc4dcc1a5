"""Reads small kernel files cheaply: no buffering, no text layer, no exceptions for missing files.

Also opens files whose names other users choose, and which may lead anywhere: see :func:`opened`.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Callable, List, Optional

LIMIT = 1 << 20


def read(path: str, limit: int = LIMIT) -> bytes:
    """Contents of a file of /proc or /sys, at most ``limit`` bytes.

    Raises the kernel's :class:`OSError`: FileNotFoundError and ProcessLookupError for a process that is gone,
    PermissionError without the right to read it.
    """
    return _whole(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), limit)


def _whole(descriptor: int, limit: int) -> bytes:
    """Read a descriptor to its end, and close it."""
    try:
        data = os.read(descriptor, min(limit, 16384))
        part = data and os.read(descriptor, limit)  # a short read need not be the last: the kernel splits at records
        if not part:
            return data
        parts: List[bytes] = [data]
        size = len(data)
        while part and size < limit:
            parts.append(part)
            size += len(part)
            part = os.read(descriptor, min(limit, 65536))
        return b"".join(parts)[:limit]
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of ``data``, in a single write if possible. Raises :class:`OSError`."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def read_or_none(path: str) -> Optional[bytes]:
    """Contents of a file; None if it is missing or unreadable."""
    try:
        return read(path)
    except OSError:
        return None


def regular(found: os.stat_result) -> bool:
    """True for a regular file."""
    return stat.S_ISREG(found.st_mode)


def opened(path: str, accept: Callable[[os.stat_result], bool] = regular, flags: int = os.O_RDONLY) -> int:
    """Open a file whose name another user chose, if ``accept`` takes its stat; never blocks on a FIFO.

    A file that is not accepted is never opened, because opening alone may have effects as root (a watchdog device arms
    its timer and reboots the node; a FIFO's writer resumes). The checked file is the one opened, even if the name is
    replaced in between. Raises :class:`OSError`.
    """
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        found = os.fstat(place)
        if not accept(found):
            wrong = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
            raise OSError(wrong, "no regular file" if not regular(found) else "not the file that it should be", path)
        return os.open("/proc/self/fd/%d" % place, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    finally:
        os.close(place)


def named_file(path: str, uid: int) -> int:
    """Open a regular file named by user ``uid``, if that user owns it or every user may read it.

    As root we must not read other files for that user; reading alone has effects, as it empties some kernel files.
    Raises :class:`OSError`.
    """

    def accept(found: os.stat_result) -> bool:
        return regular(found) and (uid in (0, found.st_uid) or bool(found.st_mode & stat.S_IROTH))

    return opened(path, accept)


def read_named(path: str, uid: int, limit: int = LIMIT) -> Optional[bytes]:
    """Contents of a :func:`named_file`; None if it is missing or this user may not read it."""
    try:
        return _whole(named_file(path, uid), limit)
    except OSError:
        return None


def is_ours(path: str) -> bool:
    """True for a file that only root and this user can change or replace.

    In a folder with the sticky bit (/tmp), others can add files, but not replace those of root and this user.
    """
    us = (0, os.geteuid())
    try:
        found = os.stat(path)
        if found.st_uid not in us or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return False
        while path != os.path.dirname(path):
            path = os.path.dirname(path)
            found = os.stat(path)
            writable = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if found.st_uid not in us or (writable and not found.st_mode & stat.S_ISVTX):
                return False
    except OSError:
        return False
    return True


def text(data: bytes) -> str:
    """Decode untrusted bytes; invalid UTF-8 becomes U+FFFD, so that the text can always be written as JSON."""
    return data.decode("utf-8", "replace")


def owner(path: str) -> Optional[int]:
    """User id of a file's owner; None when unknown."""
    try:
        return os.stat(path).st_uid
    except OSError:
        return None


def read_text(path: str) -> str:
    """Text of a small file, stripped; empty if unreadable."""
    return text(read_or_none(path) or b"").strip()


def read_int(path: str) -> Optional[int]:
    """Number in a small file; None if the file is unreadable or holds no number."""
    try:
        return int(read(path))
    except (OSError, ValueError):
        return None


def link(path: str) -> str:
    """Target of a symbolic link; empty if unreadable."""
    try:
        return text(os.fsencode(os.readlink(path)))
    except OSError:
        return ""


def list_folder(path: str) -> List[str]:
    """Names in a folder, sorted; empty if unreadable."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []
