"""Names and numbers of the signals that end processes."""

from __future__ import annotations

from typing import Optional

NAMES = {
    1: "HUP",
    2: "INT",
    3: "QUIT",
    4: "ILL",
    5: "TRAP",
    6: "ABRT",
    7: "BUS",
    8: "FPE",
    9: "KILL",
    11: "SEGV",
    13: "PIPE",
    15: "TERM",
    24: "XCPU",
}
NUMBERS = {name: number for number, name in NAMES.items()}


def of_exit(code: Optional[int]) -> str:
    """The signal behind an exit status: negative as Python says it, 128 + n as a shell does; empty for none."""
    if code is None:
        return ""
    if code < 0:
        return NAMES.get(-code, str(-code))
    return NAMES.get(code - 128, "") if code > 128 else ""


def name(text: str) -> str:
    """``KILL`` for ``SIGKILL``, ``Signals.SIGKILL`` and ``9``."""
    bare = text.strip().rsplit(".", 1)[-1].upper()
    if bare.isdecimal():
        return NAMES.get(int(bare[:4]), bare)
    return bare[3:] if bare.startswith("SIG") else bare
