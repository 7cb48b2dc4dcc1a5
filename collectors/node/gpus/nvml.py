"""NVML in a child process: started where there is a driver, with the bindings that were sent for it, and kept apart."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from collectors.node import loader
from collectors.node.child import Child, ToolLines
from collectors.node.files import text
from collectors.node.source import Absent, Failed, NotResponding, Shared, Source
from collectors.samples.gpus import NvlinkCounters, bus_key
from collectors.samples.logs import LogEvent
from collectors.samples.stream import Fault
from collectors.samples.values import Value

DEVICE = "/dev/nvidiactl"
"""There where the driver is loaded."""
BUNDLE = "nvml"
"""What this side asks for (see ``Hello.wants``): the bindings and the watch as JSON of their sources, packed."""
SILENCE = 15.0
"""Seconds without a line after which the driver is said not to answer."""
GIVE_UP = 60.0
"""Seconds without a line after which the child is killed; another is started once it is gone."""
RELOOK = 30.0
"""Seconds from one start of the child to the next at the least, and between two looks for a driver."""

# The sources come on the child's standard input: nothing is written to disk, and an argument is too short for them.
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
    """Xid events, NVLinks and the SM share of processes."""

    name = "nvml"
    retry = 0.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        super().__init__(shared, proc, sys)
        self._child: Optional[Child] = None
        self._lines = ToolLines()
        self._heard = time.monotonic()
        self._start_due = 0.0
        self._failure = ""
        self._shares: Dict[Tuple[str, int], int] = {}

    def look(self, now: float) -> Iterator[NamedTuple]:  # noqa: ARG002 (events carry their own time)
        """What the child said since the last look."""
        moment = time.monotonic()
        if self._child is None:
            self._start(moment)
        if self._child is not None:
            yield from self._read(self._child)
        if self._failure:
            raise Failed(self._failure)
        age = moment - self._heard
        if self._child is not None and age > SILENCE:
            if age > GIVE_UP:
                self._child.kill()
            raise NotResponding("NVML", age)

    def _start(self, moment: float) -> None:
        if not os.path.exists(DEVICE):
            raise Absent("no NVIDIA driver on this node (%s)" % DEVICE, RELOOK)
        bundle = loader.blob(BUNDLE)
        if bundle is None:
            raise Absent("the NVML bindings have not come to this node")
        if moment >= self._start_due:
            self._start_due = moment + RELOOK
            self._child = Child([sys.executable, "-I", "-S", "-B", "-u", "-c", _PROGRAM], feed=bundle)
            self._lines, self._heard = ToolLines(), moment

    def _read(self, child: Child) -> Iterator[NamedTuple]:
        ended = child.status
        for line in self._lines.feed(child.read()):
            try:
                kind, *words = json.loads(line)
            except (ValueError, TypeError):
                yield Fault(self.name, "a line of NVML's process was not understood: %s" % line[:200], 1)
                continue
            self._heard = time.monotonic()
            yield from self._take(kind, words)
        if ended is not None:
            said = text(child.read_errors()).strip().splitlines()
            child.end()
            self._child = None
            self._failure = self._failure or (said[-1] if said else "NVML's process ended with status %s" % ended)

    def _take(self, kind: str, words: List[Any]) -> Iterator[NamedTuple]:
        if kind == "xid":
            yield xid_event(*words)
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


def xid_event(at: float, gpu: Optional[int], bus_id: str, code: int) -> LogEvent:
    """An Xid as the kernel log's reader tells it: the address without its function."""
    address = bus_key(bus_id)
    where = "GPU %s" % gpu if gpu is not None else "a GPU"
    data: Dict[str, Value] = {"code": code, "bus_id": address, "pid": None, "process": "", "detail": ""}
    said = "NVML: Xid %d on %s (%s)" % (code, where, address)
    return LogEvent("kernel.xid", at, None, "", None, "nvml", 0, said, data)
