"""The py-spy of our own dependency, to lend to nodes that have none."""

from __future__ import annotations

import platform
import shutil
import sys
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

NOTHING = b"%08x" % 0
"""Said instead of a py-spy."""
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


def lending_once(lend: Callable[[str], bytes]) -> Callable[[str], bytes]:
    """``lend`` for one program: what could make no use of it, or says that it needs it ever again, gets none."""
    asked = False

    def once(machine: str) -> bytes:
        nonlocal asked
        before, asked = asked, True
        return NOTHING if before else lend(machine)

    return once


def loan(machine: str) -> bytes:
    """What to write to a node that wants a py-spy: size as 8 hexadecimal digits, then the compressed binary.

    Size 0 where ours does not run there: it is built for one processor and for Linux.
    """
    path = own_py_spy()
    here = _SAME.get(platform.machine().lower(), platform.machine())
    if path is None or sys.platform != "linux" or here != _SAME.get(machine.lower(), machine):
        return NOTHING
    binary = _compressed(path)
    return b"%08x" % len(binary) + binary
