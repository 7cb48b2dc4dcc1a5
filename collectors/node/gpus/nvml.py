"""Source ``nvml``: runs NVML in a child process, with bindings sent by the fleet side, on nodes with a driver."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

from collectors.node import loader
from collectors.node.child import LineStream
from collectors.node.source import Absent, Failed, Shared, Source
from collectors.samples import Value
from collectors.samples.gpus import NvlinkCounters, bus_key
from collectors.samples.logs import LogEvent
from collectors.samples.stream import Fault

DEVICE = "/dev/nvidiactl"
"""Exists while the driver is loaded."""
BUNDLE = "nvml"
"""Name of the resource requested in ``Hello.wants``: JSON of the sources of pynvml and nvml_watch, zlib in base64."""
SILENCE = 15.0
"""Seconds without a line after which the driver counts as not responding."""
GIVE_UP = 60.0
"""Seconds without a line after which the child is killed; a new one is started once it is gone."""
RELOOK = 30.0
"""Seconds between starts of the child at least, and between checks for a driver."""

# The sources come on the child's standard input: nothing is written to disk, and they are too long for an argument.
_PROGRAM = """\
import base64, json, sys, zlib
sources = json.loads(zlib.decompress(base64.b64decode(sys.stdin.buffer.read())))
modules = {}
for name in sources:
    module = modules[name] = sys.modules[name] = type(sys)(name)
    exec(compile(sources[name], name, "exec", dont_inherit=True, optimize=2), module.__dict__)
modules["nvml_watch"].main(modules["pynvml"])
"""


class Nvml(Source):
    """Xid events, NVLink counters and SM shares of processes."""

    name = "nvml"

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        super().__init__(shared, proc, sys)
        self._stream = LineStream("NVML", RELOOK)
        self._said = self._failure = ""
        self._shares: Dict[Tuple[str, int], int] = {}

    def read(self, now: float) -> Iterator[NamedTuple]:  # noqa: ARG002 (events carry their own time)
        """Samples from the child's lines since the last read."""
        is_loaded = os.path.exists(DEVICE)
        self.retry = 0.0 if is_loaded else RELOOK
        if not is_loaded:
            raise Absent("no NVIDIA driver on this node (%s)" % DEVICE)
        bundle = loader.blob(BUNDLE)
        if bundle is None:
            raise Absent("the NVML bindings have not come to this node")
        for line in self._stream.lines(lambda: [sys.executable, "-I", "-S", "-B", "-u", "-c", _PROGRAM], feed=bundle):
            try:
                kind, *words = json.loads(line)
            except (ValueError, TypeError):
                self._said = line[:200]
                yield Fault(self.name, "a line of NVML's process was not understood: %s" % self._said, 1)
                continue
            yield from self._take(kind, words)
        if self._stream.status is not None:
            self._failure = self._failure or self._said or "NVML's process ended with status %s" % self._stream.status
        if self._failure:
            raise Failed(self._failure)
        self._stream.check(SILENCE, GIVE_UP)

    def _take(self, kind: str, words: List[Any]) -> Iterator[NamedTuple]:
        if kind == "xid":
            at, gpu, bus_id, code = words
            address = bus_key(bus_id)  # without its function, as in events of the kernel log
            data: Dict[str, Value] = {"code": code, "bus_id": address, "pid": None, "process": "", "detail": ""}
            said = "NVML: Xid %d on %s (%s)" % (code, "a GPU" if gpu is None else "GPU %s" % gpu, address)
            yield LogEvent("kernel.xid", at, None, "", None, "nvml", 0, said, data)
        elif kind == "link":
            yield NvlinkCounters(*words)
        elif kind == "share":
            self._shares[bus_key(words[0]), words[1]] = words[2]
        elif kind == "round":
            self._failure = ""
            self.shared.sm_shares, self._shares = self._shares, {}
        elif kind == "remark":
            yield Fault(self.name, str(words[0])[:300], 1)
        elif kind == "trouble":
            self._failure = str(words[0])
