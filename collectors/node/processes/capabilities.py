"""What this process may do beyond what its user may: capabilities(7), as /proc/PID/status has them."""

from __future__ import annotations

from collectors.node.files import read_or_none
from collectors.node.processes.procfs import colon_field

SYS_PTRACE = 19
"""Number of CAP_SYS_PTRACE in include/uapi/linux/capability.h."""


def has(number: int, proc: str = "/proc") -> bool:
    """True when this process holds a capability; False where the kernel does not tell."""
    mask = colon_field(read_or_none(proc + "/self/status") or b"", b"CapEff")
    return bool(int(mask or b"0", 16) >> number & 1)
