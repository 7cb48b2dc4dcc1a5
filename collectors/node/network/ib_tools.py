"""What ``perfquery -x`` prints: the counters of a port."""

from __future__ import annotations

import re
from typing import Dict

WORDS = frozenset({"port_xmit_data", "port_rcv_data"})
"""Counters that count words of four bytes."""
LARGEST = (1 << 63) - 1
"""Counters of 64 bits that stick at all ones are told as this: what reads them takes signed numbers."""

_COUNTER = re.compile(r"(\w{2,64}):\.*(0x[0-9a-fA-F]{1,16}|\d{1,20})")
_NEXT_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def parse_perfquery(text: str) -> Dict[str, int]:
    """Extended counters (``perfquery -x``) of the first port that is shown, by the kernel's names; data in bytes."""
    values: Dict[str, int] = {}
    shown = 0
    for line in text.splitlines():
        counter = _COUNTER.match(line)
        shown += line.startswith("# Port extended counters: ")
        if counter and shown == 1 and "Select" not in line:
            name, digits = kernel_name(counter.group(1)), counter.group(2)
            value = int(digits, 16 if digits.startswith("0x") else 10)
            values[name] = min(value * 4 if name in WORDS else value, LARGEST)
    return values


def kernel_name(name: str) -> str:
    """Perfquery's name of a counter as the kernel has it: ``SymbolErrorCounter`` is ``symbol_error``."""
    words = _NEXT_WORD.sub("_", name).lower().split("_")
    return "_".join("packets" if word == "pkts" else word for word in words if word != "counter")
