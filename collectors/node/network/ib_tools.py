"""Parses the output of ``perfquery -x``: the counters of a port."""

from __future__ import annotations

import re
from typing import Dict

WORDS = frozenset({"port_xmit_data", "port_rcv_data"})
"""Counters in units of four bytes."""
LARGEST = (1 << 63) - 1
"""Larger values (64-bit counters stuck at all ones) are reported as this: receivers decode signed numbers."""

_COUNTER = re.compile(r"(\w{2,64}):\.*(0x[0-9a-fA-F]{1,16}|\d{1,20})")
_NEXT_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def parse_perfquery(text: str) -> Dict[str, int]:
    """Extended counters (``perfquery -x``) of the first port in the output, by the kernel's names; data in bytes."""
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
    """Convert perfquery's name of a counter to the kernel's: ``SymbolErrorCounter`` → ``symbol_error``."""
    words = _NEXT_WORD.sub("_", name).lower().split("_")
    return "_".join("packets" if word == "pkts" else word for word in words if word != "counter")
