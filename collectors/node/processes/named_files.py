"""The file that a system call names by its path, read from the memory of the process that made it.

A rank that waits for an open, a stat or a rename has no descriptor yet: only the path tells which file it waits for.
/proc/PID/syscall shows the pointer to it, and /proc/PID/mem what is there, to whoever may trace the process; nothing is
stopped. The path is a user's own text, and may be torn: it is bounded, and what is no path is left out.
"""

from __future__ import annotations

import os
from typing import Dict, NamedTuple, Optional, Sequence

from collectors.node import files
from collectors.node.processes.memory import memory_of

LONGEST = 4096
"""Bytes of the longest path (PATH_MAX)."""
_PAGE = 4096
_HERE = 0xFFFFFF9C
"""AT_FDCWD in 32 bits: relative to the working folder."""
_HOW_SIZE = 8
"""Bytes of the flags, which struct open_how begins with."""


class _Arguments(NamedTuple):
    """Places of a call's arguments; -1 for what it has not."""

    folder: int
    path: int
    flags: int
    """Flags of an open, or for openat2 where they are."""


_CALLS: Dict[str, _Arguments] = {
    "open": _Arguments(-1, 0, 1), "openat": _Arguments(0, 1, 2), "openat2": _Arguments(0, 1, 2),
    "stat": _Arguments(-1, 0, -1), "newfstatat": _Arguments(0, 1, -1), "statx": _Arguments(0, 1, -1),
    "truncate": _Arguments(-1, 0, -1), "mkdir": _Arguments(-1, 0, -1), "mkdirat": _Arguments(0, 1, -1),
    "unlink": _Arguments(-1, 0, -1), "unlinkat": _Arguments(0, 1, -1), "rename": _Arguments(-1, 0, -1),
    "renameat": _Arguments(0, 1, -1), "renameat2": _Arguments(0, 1, -1),
}  # fmt: skip
NAMING = frozenset(_CALLS)
"""Calls that name a file by its path."""


def named(folder: str, call: str, words: Sequence[str]) -> str:
    """Path that a call names, of an open also what for: ``/ckpt/model.pt, to write``; empty where it cannot be read.

    ``words`` are the call's arguments as /proc/PID/syscall shows them.
    """
    places = _CALLS[call]
    try:
        arguments = [int(word, 16) for word in words]
        with memory_of(folder) as memory:
            path = _text(memory, arguments[places.path])
            flags = _flags(memory, call, arguments[places.flags]) if places.flags >= 0 else None
    except (OSError, ValueError, OverflowError, IndexError):  # no such words; it may not be read, or has gone on
        return ""
    if not path.startswith("/"):
        path = _below(folder, arguments[places.folder] if places.folder >= 0 else _HERE, path)
    return path + _purpose(flags) if path else ""


def _text(memory: int, address: int) -> str:
    """Text up to NUL, page after page: the next page may not be there. Raises :class:`OSError`."""
    found = b""
    while len(found) < LONGEST:
        part = os.pread(memory, _PAGE - (address + len(found)) % _PAGE, address + len(found))
        text, ended, _ = part.partition(b"\0")
        found += text
        if ended or not part:
            break
    return files.text(found[:LONGEST])


def _flags(memory: int, call: str, argument: int) -> Optional[int]:
    if call != "openat2":
        return argument
    how = os.pread(memory, _HOW_SIZE, argument)
    return int.from_bytes(how, "little") if len(how) == _HOW_SIZE else None


def _below(folder: str, descriptor: int, path: str) -> str:
    """A relative path with the folder that it begins in; empty where that cannot be told, or there is no path."""
    if not path:
        return ""
    low = descriptor & 0xFFFFFFFF
    begin = files.link(folder + "/cwd" if low == _HERE else "%s/fd/%d" % (folder, low))
    return "%s/%s" % (begin.rstrip("/"), path) if begin.startswith("/") else ""


def _purpose(flags: Optional[int]) -> str:
    """What a file is opened for. Without O_RDWR in it: that waits for nobody, and tells neither."""
    if flags is None:
        return ""
    return {os.O_RDONLY: ", to read", os.O_WRONLY: ", to write"}.get(flags & os.O_ACCMODE, "")
