"""Lines of the control line, which a node side reads from its standard input (``collectors.node.wire``)."""

from __future__ import annotations

import json

from collectors.samples.control import Beat, Lent, Settings


def control_line(said: Settings | Beat | Lent) -> bytes:
    """One of them as a line."""
    return json.dumps([type(said).__name__, said], separators=(",", ":")).encode() + b"\n"
