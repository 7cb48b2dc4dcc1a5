"""Reading small kernel files cheaply: no buffering, no text layer, no exception for what is not there."""

from __future__ import annotations

import os
from typing import List, Optional

LIMIT = 1 << 20


def read(path: str, limit: int = LIMIT) -> bytes:
    """Contents of a file of /proc or /sys, at most ``limit`` bytes.

    Raises :class:`OSError` as the kernel says it: FileNotFoundError and ProcessLookupError for a process that is gone,
    PermissionError where it may not be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
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


def read_or_none(path: str, limit: int = LIMIT) -> Optional[bytes]:
    """Contents of a file, None where it is not there or may not be read."""
    try:
        return read(path, limit)
    except OSError:
        return None


def text(data: bytes) -> str:
    """Text of bytes from outside: whatever is no UTF-8 becomes U+FFFD, so that it can always be written as JSON."""
    return data.decode("utf-8", "replace")


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
