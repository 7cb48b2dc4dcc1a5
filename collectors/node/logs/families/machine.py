"""What the kernel says about the machine itself: panics, machine checks, memory, PCIe, CPUs that stand still.

An expedited grace period that takes some jiffies longer than it should is no stall of a CPU's.

``kernel.machine`` has ``problem`` and the words in ``what``. Errors that the hardware corrected are left out (a bank's
status whose bit 61 is clear). Formats:
``arch/x86/kernel/cpu/mce``, ``drivers/edac/edac_mc.c`` (``1 UE memory read error on …``), ``mm/memory-failure.c``,
``drivers/firmware/efi/cper.c``, ``drivers/pci/pcie/aer.c``, ``kernel/rcu/tree_stall.h``, ``kernel/panic.c``.
"""

from __future__ import annotations

from typing import Optional, Tuple

from collectors.node import late_re as re
from collectors.node.logs.said import Said

_PROBLEMS: Tuple[Tuple[str, "re.Pattern[str]"], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("panic", r"Kernel panic - not syncing: [^\r\n]{1,160}"),
        (
            "machine_check",
            r"CPU \d{1,5}: Machine Check(?: Exception)?: [0-9a-f]{1,3} Bank \d{1,3}: [abef][^\r\n]{1,80}",
        ),
        ("memory", r"EDAC [\w ]{0,24}MC\d{1,3}: \d{1,9} UE [^\r\n]{1,160}"),
        (
            "memory",
            r"Memory failure: 0x[0-9a-f]{1,16}: (?!recovery action for \w[^\r\n]{0,40}: Recovered)[^\r\n]{1,120}",
        ),
        ("memory", r"Uncorrected hardware memory error in user-access"),
        ("hardware", r"\[Hardware Error\]: event severity: fatal|\[Hardware Error\]: [^\r\n]{0,60}\btype: fatal"),
        (
            "pcie",
            r"PCIe Bus Error: severity=Uncorrect\w{1,12} \((?:Fatal|Non-Fatal)\)|AER: Uncorrect\w{1,12} \(Fatal\)",
        ),
        ("pcie", r"pciehp: Slot\([^)\r\n]{1,20}\): (?:Link Down|Card not present)"),
        ("oops", r"BUG: (?:unable to handle|kernel NULL pointer)[^\r\n]{1,120}|kernel BUG at [^\r\n]{1,120}"),
        ("oops", r"LustreError: [^\r\n]{0,120}?(?:\) LBUG\b|ASSERTION ?\([^\r\n]{1,100}? failed\b)"),
        (
            "cpu_stall",
            (
                r"\brcu\w{0,20}: (?:INFO: )?rcu_\w{2,20} (?:self-)?detected (?:expedited )?stalls? on CPU"
                r"(?![^\r\n]{0,160}\} \d{1,3} jiffies)"
                r"|INFO: rcu_\w{2,20} (?:self-)?detected stalls? on CPU"
            ),
        ),
    )
)
STEMS = (
    b"Kernel panic", b"[Hardware Error]", b" UE ", b"Memory failure: 0x", b"hardware memory error",
    b"PCIe Bus Error", b"AER: Uncorrect", b"pciehp: ", b"BUG: unable", b"BUG: kernel", b"kernel BUG at", b"on CPU",
    b") LBUG", b"ASSERTION",
)  # fmt: skip


def said(text: str) -> Optional[Said]:
    """The event of a line of the kernel's, None where it says nothing of the machine."""
    for problem, pattern in _PROBLEMS:
        match = pattern.search(text)
        if match is not None:
            return Said("kernel.machine", {"problem": problem, "what": match.group().strip()[:200]})
    return None
