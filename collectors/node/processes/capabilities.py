"""What a process may do beyond what its user may: capabilities(7), as /proc/PID/status has them."""

from __future__ import annotations

from collectors.node.files import read_or_none
from collectors.node.processes.procfs import colon_field

SYS_PTRACE = 19
"""Number of CAP_SYS_PTRACE in include/uapi/linux/capability.h."""
SYS_ADMIN = 21
"""Number of CAP_SYS_ADMIN there."""


def has(number: int, proc: str = "/proc") -> bool:
    """True when this process holds a capability; False where the kernel does not tell."""
    return bool(_mask(read_or_none(proc + "/self/status") or b"", b"CapEff") >> number & 1)


def of(status: bytes) -> int:
    """All that a process holds, or may come to hold by a program that it runs: a bit each; its status says."""
    return _mask(status, b"CapPrm") | _mask(status, b"CapBnd")


def _mask(status: bytes, name: bytes) -> int:
    return int(colon_field(status, name) or b"0", 16)
