"""Lines that a node side reads from its standard input (see ``collectors.node.wire``)."""

from __future__ import annotations

import base64
import json
import zlib
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import collectors
from collectors.samples.control import Beat, Lent, Settings

_WATCH = Path(collectors.__file__).parent / "node" / "gpus" / "nvml_watch.py"


def control_line(said: Settings | Beat | Lent) -> bytes:
    """A control sample as a line of JSON."""
    if isinstance(said, Beat):  # twenty a second, and the general way takes seven times as long
        return b'["Beat",[%d]]\n' % said.seq
    return json.dumps([type(said).__name__, said], separators=(",", ":")).encode() + b"\n"


@lru_cache(maxsize=8)
def lend(name: str) -> bytes | None:
    """Line with the modules that a node asked for by ``name``; None where they are not installed here."""
    if name != "nvml":
        return None
    bindings = find_spec("pynvml")
    if bindings is None or bindings.origin is None:
        return None
    sources = {"pynvml": Path(bindings.origin).read_text("utf-8"), "nvml_watch": _WATCH.read_text("utf-8")}
    packed = base64.b64encode(zlib.compress(json.dumps(sources).encode(), 9)).decode()
    return control_line(Lent(name, packed))
