"""The network of the probe from NCCL's log, and NVIDIA's nccl-tests on the nodes that have them.

The log is part of the worker's output and is never written to disk. nccl-tests run on each node separately, because
across nodes they need mpirun, whose daemons would outlive hangtop's connection.
"""

from __future__ import annotations

import re

from collectors.fleet import payload
from collectors.fleet.clean import clean, clean_bytes
from collectors.fleet.transport import TransportError
from collectors.formats.nccl_tests import parse
from collectors.node.logs.parser import LogParser
from collectors.probes.allreduce.worker import ProbeNode
from collectors.probes.running import Limits, NodeAccess, Running
from collectors.samples.probes import NcclTest

_OVER_NET = re.compile(rb"Channel \d{1,9}(?:/\d{1,9})? : [^\n]{0,300}? via NET/\w+/\d+(/GDRDMA)?")
"""Line of a channel (NCCL's ``src/transport/net.cc``), which the log parser does not read."""


def network_of(log: bytes) -> dict[str, str]:
    """Facts from one node's log, by the names in :class:`~collectors.samples.probes.ProbeReport`; empty without any."""
    parser, found = LogParser("probe"), {}
    for event in (*parser.feed(log), *parser.close()):
        if event.kind in ("nccl.version", "nccl.network"):
            name = event.kind.partition(".")[2]
            found[name] = str(event.data.get(name, ""))
    if direct := _OVER_NET.findall(log):
        some = f"on {sum(map(bool, direct))} of {len(direct)} channels"
        found["gdr"] = "on" if all(direct) else some if any(direct) else "off"
    return {name: clean(value) for name, value in found.items() if value}


SECONDS = 40.0
"""Time-out of one run, in seconds."""
KEPT, MOST = 1 << 20, 1 << 30
"""Most bytes of output that are kept, and that are read."""
_MISSING = 127
"""Status of the shell if the node does not have the program."""


def describe(sizes: tuple[int, ...], gpus: int) -> str:
    """The command: over all GPUs of a node, from the smallest size to the largest."""
    return f"all_reduce_perf -b {min(sizes)} -e {max(sizes)} -f 2 -g {gpus} -n 10 -w 2"


async def run_nccl_tests(
    access: NodeAccess, node: ProbeNode, sizes: tuple[int, ...], seconds: float = SECONDS
) -> NcclTest | None:
    """Run all_reduce_perf on one node in the environment of its rank; None if PATH does not have it.

    A failure on the node never raises; ``why`` has the reason. Everything started is ended, also on cancellation.
    """
    output = bytearray()

    def keep(data: bytes) -> bool:
        output.extend(data)
        del output[:-KEPT]
        return False

    command = ["sh", "-c", f"exec {describe(sizes, node.ranks)}"]
    arguments = {"pid": node.pid, "python": "", "env": {"NCCL_DEBUG": "WARN"}, "command": command}
    packed = payload.pack("collectors.node.processes.launch", arguments)
    words = payload.command(access.transport.python, nice=False)
    running = Running(access.transport, words, packed, keep, raw=True, limits=Limits(total=MOST))
    why = ""
    try:
        async with running:
            status = await running.ended(seconds)
            if status == _MISSING and not output:
                return None
            why = "" if status == 0 else running.last_error() or f"ended with status {status}"
    except TransportError as error:
        why = str(error)
    except TimeoutError:
        why = f"did not end within {seconds:.0f} s"
    figures, wrong = parse(clean_bytes(bytes(output)))
    return NcclTest(node.name, node.ranks, figures, wrong, why or ("" if figures else "it printed no figures"))
