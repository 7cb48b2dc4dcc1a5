"""What this process may do beyond what its user may: capabilities(7), as /proc/self/status has them."""

from __future__ import annotations

from collectors.node.files import read_text

SYS_PTRACE = 19
"""Number of CAP_SYS_PTRACE in include/uapi/linux/capability.h."""


def has(number: int, proc: str = "/proc") -> bool:
    """True when this process holds a capability; False where the kernel does not tell."""
    for line in read_text(proc + "/self/status").splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> number & 1)
    return False
