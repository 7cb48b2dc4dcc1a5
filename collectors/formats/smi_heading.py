"""Whether nvidia-smi's table or list is all of a text, or stands above a log: many job scripts print one first."""

from __future__ import annotations

import re

_LISTED = re.compile(r"^GPU \d{1,4}: .{1,200}? \(UUID: ", re.MULTILINE)
_OWN = re.compile(
    r"^\s{0,8}(?:[|+=]|GPU \d{1,4}: |(?:MIG|Link) "
    r"|[A-Z][a-z]{2} [A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d (?:[A-Z]{2,5} )?\d{4}\s{0,40}$"
    r"|No running processes|(?:No devices|Failed to init|NVIDIA-SMI has|Unable to det))"
)
"""Lines of a table or a list, the time above it among them."""


def others(text: str) -> int:
    """How many lines are not the table's or the list's; none are counted of its other forms."""
    if "NVSMI LOG" in text or not ("NVIDIA-SMI" in text or _LISTED.search(text)):
        return 0
    return sum(1 for line in text.splitlines() if line.strip() and not _OWN.match(line))
