"""What iproute2's ``rdma link`` prints, a line a port: ``link mlx5_7/1 … state DOWN physical_state POLLING``.

Older versions begin a line with ``1/1: mlx5_7/1:``.
"""

from __future__ import annotations

import re

from collectors.samples.fabric import PortFacts

_LINE = re.compile(
    r"^\s{0,4}(?:link |\d{1,4}/\d{1,4}: )(?P<device>[\w-]{1,64})/(?P<port>\d{1,3}):? "
    r"(?P<rest>[^\r\n]{0,300}?\bstate (?P<state>[A-Z_]{2,16})\b[^\r\n]{0,200})",
    re.MULTILINE,
)
_FIELD = re.compile(r"\b(?P<name>physical_state|netdev|lid|sm_lid) (?P<value>\S{1,64})")
_LINK_UP = "LINK_UP"


def looks_like(head: str) -> bool:
    """Whether a text that begins so is this tool's."""
    return _LINE.match(head.lstrip("\n")) is not None


def parse(text: str) -> list[PortFacts]:
    """The ports. What a line does not say is unknown; a port with a LID is InfiniBand's."""
    return [_facts(match) for match in _LINE.finditer(text)]


def _facts(match: re.Match[str]) -> PortFacts:
    fields = {found.group("name"): found.group("value") for found in _FIELD.finditer(match.group("rest"))}
    physical = fields.get("physical_state", "")
    return PortFacts(
        device=match.group("device"), port=int(match.group("port")),
        link_layer="InfiniBand" if "lid" in fields else "Ethernet" if "netdev" in fields else "",
        state=match.group("state"), phys_state="LinkUp" if physical == _LINK_UP else physical.capitalize(),
        rate=None, rate_text="", lid=_number(fields.get("lid", "")), sm_lid=_number(fields.get("sm_lid", "")),
        netdev=fields.get("netdev", ""), firmware="", board="",
    )  # fmt: skip


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 8 else None
