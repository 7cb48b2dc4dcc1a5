"""The py-spy of our own dependency, to lend to nodes that have none."""

from __future__ import annotations

import platform
import shutil
import sys
import zlib
from functools import lru_cache
from pathlib import Path

FAST = 1
"""Level of compression: 8 MB become 3.2 in 0.1 s; a better one saves half a megabyte and costs four times that."""

_SAME = {"amd64": "x86_64", "arm64": "aarch64"}


def own_py_spy() -> Path | None:
    """Path of the py-spy that was installed with hangtop; None when somebody removed it."""
    beside = Path(sys.executable).parent / "py-spy"
    if beside.is_file():
        return beside
    found = shutil.which("py-spy")
    return Path(found) if found else None


@lru_cache(maxsize=1)
def _compressed(path: Path) -> bytes:
    return zlib.compress(path.read_bytes(), FAST)


def loan(machine: str) -> bytes:
    """What to write to a node that wants a py-spy: size as 8 hexadecimal digits, then the compressed binary.

    Size 0 where ours does not run there: it is built for one processor and for Linux.
    """
    path = own_py_spy()
    here = _SAME.get(platform.machine().lower(), platform.machine())
    if path is None or sys.platform != "linux" or here != _SAME.get(machine.lower(), machine):
        return b"%08x" % 0
    binary = _compressed(path)
    return b"%08x" % len(binary) + binary
