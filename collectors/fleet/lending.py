"""What is sent to a node only when it says that it has a use for it: too large for every payload."""

from __future__ import annotations

import base64
import json
import zlib
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import collectors
from collectors.fleet.control import control_line
from collectors.samples.control import Lent

_WATCH = Path(collectors.__file__).parent / "node" / "gpus" / "nvml_watch.py"


@lru_cache(maxsize=8)
def lend(name: str) -> bytes | None:
    """Control line with what a node wants by this name; None for what we do not have."""
    if name != "nvml":
        return None
    bindings = find_spec("pynvml")
    if bindings is None or bindings.origin is None:
        return None
    sources = {"pynvml": Path(bindings.origin).read_text("utf-8"), "nvml_watch": _WATCH.read_text("utf-8")}
    packed = base64.b64encode(zlib.compress(json.dumps(sources).encode(), 9)).decode()
    return control_line(Lent(name, packed))
