"""What ``ibnetdiscover`` prints: which switch each port of each adapter hangs at.

Format: ibnetdiscover(8) of infiniband-diags. After the lines of a switch, ``Switch 41 "S-…" # "MF0;leaf01:MQM8700/U1"
… lid 5 lmc 0``, comes one for each of its ports that is in use: ``[1] "H-…"[1](…) # "node01 mlx5_0" lid 12 4xHDR``.
A port that leads to another switch begins with ``"S-``.
"""

from __future__ import annotations

import re

from collectors.formats.floor_plan import FloorPlan
from collectors.samples.location import Location

SOURCE = "ibnetdiscover"

_SWITCH = re.compile(r'Switch\s{1,8}\d{1,5} "S-([0-9a-fA-Fx]{1,20})"\s{1,16}# "([^"]{0,128})"')
_OTHER = re.compile(r'(?:Ca|Rt)\s{1,8}\d{1,5} "')
_PORT = re.compile(
    r'\[\d{1,5}\](?:\([^)]{0,40}\))?\s{1,16}"H-[0-9a-fA-Fx]{1,20}"\[\d{1,5}\](?:\([^)]{0,40}\))?\s{0,16}'
    r'# "([^"]{0,128})" lid (\d{1,6})'
)
_MANAGED = re.compile(r"MF0;([^:;]{1,100})[:;]")
_DESCRIBED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,99}) (?:[A-Za-z][A-Za-z0-9_]{0,29}_\d{1,3}|HCA-\d{1,3})\b")


def read(text: str) -> FloorPlan:
    """Leaf of every adapter's port, by the node that its description names and by LID."""
    named: dict[str, list[Location]] = {}
    lids: dict[int, Location] = {}
    leaf = ""
    for line in text.splitlines():
        if opened := _SWITCH.match(line):
            leaf = switch_name(opened[2]) or opened[1]
        elif _OTHER.match(line):
            leaf = ""  # its ports are told again, from their side
        elif leaf and (port := _PORT.match(line)):
            place = Location("leaf", leaf, SOURCE)
            lids[int(port[2])] = place
            if described := _DESCRIBED.match(port[1]):
                device = port[1][described.end(1) + 1 : described.end()]
                known = named.setdefault(described[1].lower(), [])
                known.append(place._replace(device=device))
    return FloorPlan({name: tuple(dict.fromkeys(places)) for name, places in named.items()}, lids)


def switch_name(description: str) -> str:
    """``leaf01`` of ``MF0;leaf01:MQM8700/U1``, as managed switches of NVIDIA describe themselves; else all of it."""
    managed = _MANAGED.match(description)
    return managed[1] if managed else description.strip()
