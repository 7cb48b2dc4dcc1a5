"""Reading small kernel files cheaply: no buffering, no text layer, no exception for what is not there.

And files whose names are of others' choosing, which may lead anywhere: see :func:`opened`.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Callable, List, Optional

LIMIT = 1 << 20


def read(path: str, limit: int = LIMIT) -> bytes:
    """Contents of a file of /proc or /sys, at most ``limit`` bytes.

    Raises :class:`OSError` as the kernel says it: FileNotFoundError and ProcessLookupError for a process that is gone,
    PermissionError where it may not be read.
    """
    return _whole(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), limit)


def _whole(descriptor: int, limit: int) -> bytes:
    """What a descriptor gives, which is closed."""
    try:
        data = os.read(descriptor, min(limit, 16384))
        part = data and os.read(descriptor, limit)  # a short read is not the last one: records are not torn
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


def read_or_none(path: str) -> Optional[bytes]:
    """Contents of a file, None where it is not there or may not be read."""
    try:
        return read(path)
    except OSError:
        return None


def regular(found: os.stat_result) -> bool:
    """True for a regular file."""
    return stat.S_ISREG(found.st_mode)


def opened(path: str, accept: Callable[[os.stat_result], bool] = regular, flags: int = os.O_RDONLY) -> int:
    """Descriptor of a file whose name others chose, if it is one that ``accept`` takes; without waiting for a FIFO.

    Nothing else is opened, not for a moment: as root that may do something (a watchdog's timer starts, and the node is
    booted anew; a FIFO's writer goes on). What is looked at is what is opened, whatever is under its name by then.
    Raises :class:`OSError`.
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
    """Descriptor of a regular file that this user named, and that the user, or everybody, may read.

    So that root reads nothing for that user: some files of the kernel's are empty once they were read. Raises
    :class:`OSError`.
    """
    return opened(path, lambda found: regular(found) and _may_read(found, uid))


def read_named(path: str, uid: int, limit: int = LIMIT) -> Optional[bytes]:
    """Contents of a :func:`named_file`; None where there is none that this user may read."""
    try:
        return _whole(named_file(path, uid), limit)
    except OSError:
        return None


def _may_read(found: os.stat_result, uid: int) -> bool:
    return uid in (0, found.st_uid) or bool(found.st_mode & stat.S_IROTH)


def is_ours(path: str) -> bool:
    """True for a file that nobody but root and this user can change, or replace by another one of that name.

    In a folder with the sticky bit (/tmp) others can add names, but not take those of root and this user.
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
    """Text of bytes from outside: whatever is no UTF-8 becomes U+FFFD, so that it can always be written as JSON."""
    return data.decode("utf-8", "replace")


def owner(path: str) -> Optional[int]:
    """User that a file belongs to; None where that cannot be told."""
    try:
        return os.stat(path).st_uid
    except OSError:
        return None


def read_text(path: str) -> str:
    """Text of a small file, stripped; empty where it cannot be read."""
    return text(read_or_none(path) or b"").strip()


def read_int(path: str) -> Optional[int]:
    """Number in a small file; None where there is none."""
    try:
        return int(read(path))
    except (OSError, ValueError):
        return None


def link(path: str) -> str:
    """Target of a symbolic link; empty where it cannot be read."""
    try:
        return text(os.fsencode(os.readlink(path)))
    except OSError:
        return ""


def list_folder(path: str) -> List[str]:
    """Names in a folder, sorted; empty where it cannot be read."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []
