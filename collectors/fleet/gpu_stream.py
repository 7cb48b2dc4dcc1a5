"""GPUs of a node without Python: nvidia-smi itself streams over SSH, read by the node side's own parser."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from collectors.fleet.clean import clean, clean_value
from collectors.fleet.interpreter import brief
from collectors.fleet.streaming import LinkTransport
from collectors.fleet.transport import Transport, TransportError
from collectors.node.gpus.nvidia_smi_fields import Columns, choose, known_fields, rejected_field
from collectors.node.gpus.nvidia_smi_rows import gpu_row
from collectors.node.gpus.roster import Roster
from collectors.samples.stream import Hello, Tick

FORMAT = "--format=csv,noheader,nounits"
SILENCE = 9
"""Seconds without a heartbeat after which it ends there."""

NOT_FOUND = 127
_ATTEMPTS = 8
_LINE_LIMIT = 65536

# nvidia-smi would outlive a cut link. A heartbeat on standard input keeps this shell reading; when none comes in time,
# or the input ends, the loop ends and takes nvidia-smi with it.
_GUARDED = """
{command} </dev/null & child=$!
trap 'kill -9 $child 2>/dev/null' EXIT
while timeout {silence} sh -c 'read -r beat' && kill -0 $child 2>/dev/null; do :; done
"""


def command(columns: Columns, interval: float) -> list[str]:
    """Words that stream the columns every ``interval`` seconds for as long as lines come on standard input."""
    period = str(max(100, int(interval * 1000)))
    query = ["nvidia-smi", f"--query-gpu={','.join(columns.fields)}", FORMAT, "-lms", period]
    return ["sh", "-c", _GUARDED.format(command=shlex.join(query), silence=SILENCE)]


async def choose_columns(transport: Transport) -> Columns | None:
    """Columns that the node's driver knows; None when there is no nvidia-smi.

    Raises :class:`~collectors.fleet.transport.TransportError`.
    """
    done = await transport.run(brief(["nvidia-smi", "--help-query-gpu"]), timeout=20.0, limit=1 << 20)
    if done.status == NOT_FOUND:
        return None
    known = known_fields(done.stdout.decode("utf-8", "replace"))
    rejected: list[str] = []
    for _ in range(_ATTEMPTS):
        columns = choose(known, rejected)
        query = brief(["nvidia-smi", f"--query-gpu={','.join(columns.fields)}", FORMAT])
        tried = await transport.run(query, timeout=20.0, limit=1 << 20)
        field = rejected_field((tried.stdout + tried.stderr).decode("utf-8", "replace"))
        if field is None:
            return columns
        rejected.append(field)
    return choose(known, rejected)


async def offered(transport: LinkTransport) -> tuple[Columns | None, str]:
    """The same, and why there are none. Raises TransportError where the connection has ended meanwhile."""
    try:
        return await choose_columns(transport), "there is no nvidia-smi"
    except TransportError:
        if not transport.connected:
            raise
        return None, "nvidia-smi does not answer"


class GpuStream:
    """Turns nvidia-smi's output into the samples that the node side would have sent."""

    def __init__(self, columns: Columns, deliver: Callable[[list[NamedTuple], int], None]) -> None:
        self._columns = columns
        self._deliver = deliver
        self._roster = Roster()
        self._rest = b""
        self._seq = 0

    def command(self, interval: float) -> list[str]:
        """Words that make its output; see :func:`command`."""
        return command(self._columns, interval)

    def feed(self, data: bytes) -> None:
        """Take output of any size; what it completes is delivered, a tick behind it."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[-_LINE_LIMIT:]
        samples: list[NamedTuple] = []
        for line in lines:
            text = clean(line.decode("utf-8", "replace")).strip()
            row = gpu_row(self._columns.keys, text)
            if row is not None:
                samples += self._roster.row(row)
            elif text:
                samples += self._roster.line(text)
        if samples:
            self._seq += 1
            samples = [clean_value(sample) for sample in samples]
            self._deliver([*samples, Tick(self._seq, time.time(), 0.0, 0.0, 0)], len(data))


def hello(version: str, host: Mapping[str, str]) -> Hello:
    """The greeting of a node that has no Python to give one."""
    uid = host.get("uid", "")
    return Hello(
        version=version,
        python="",
        executable="",
        hostname=host.get("node", ""),
        boot_id=host.get("boot", ""),
        machine=host.get("machine", ""),
        kernel=host.get("kernel", ""),
        uid=int(uid) if uid.isdecimal() else -1,
        pid=0,
        clock=time.time(),
        sources=["gpus"],
    )
