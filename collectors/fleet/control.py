"""Lines of the control line, which a node side reads from its standard input (``collectors.node.wire``)."""

from __future__ import annotations

import json

from collectors.samples.control import Beat, Lent, Settings


def control_line(said: Settings | Beat | Lent) -> bytes:
    """One of them as a line."""
    if isinstance(said, Beat):  # twenty a second, and the general way takes seven times as long
        return b'["Beat",[%d]]\n' % said.seq
    return json.dumps([type(said).__name__, said], separators=(",", ":")).encode() + b"\n"
