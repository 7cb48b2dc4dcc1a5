"""NVIDIA's nccl-tests on each node by itself, where the node has them: the same collective measured by another program.

Between nodes they need mpirun, which logs in from one node to the others and starts daemons there that would outlive
hangtop's connection. The probe does not start mpirun; it measures between nodes itself, and shows the command of
:func:`across`.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from collectors.fleet import payload
from collectors.fleet.clean import clean_bytes
from collectors.fleet.transport import Transport, TransportError
from collectors.formats.nccl_tests import NcclTestsTable, parse
from collectors.probes.allreduce.plan import ProbeNode
from collectors.probes.allreduce.workers import launch_command
from collectors.probes.running import Limits, Running
from collectors.samples.probes import NcclTest, ProbeFigure

PROGRAMS = {
    "all_reduce": "all_reduce_perf",
    "all_gather": "all_gather_perf",
    "reduce_scatter": "reduce_scatter_perf",
    "broadcast": "broadcast_perf",
    "all_to_all": "alltoall_perf",
    "send_recv": "sendrecv_perf",
}
"""By operation."""
FOLDERS = (
    "/usr/local/bin",
    "/opt/nccl-tests/build",
    "/opt/nccl_tests/build",
    "/opt/amazon/nccl-tests/build",
    "/usr/local/nccl-tests/build",
)
"""Folders of common images, searched after PATH; a program counts only if it and its folder belong to root."""
SECONDS = 40.0
"""Most that one run may take."""
KEPT = 1 << 20
"""Bytes of output that are kept."""
MOST = 1 << 30
"""Bytes of output that are read."""
_MISSING = 127
"""Status of the shell when the node has no such program."""

# "$1" is the program, the rest its options; the first word of the output says which one was found.
_SCRIPT = """
found=$(command -v "$1")
for folder in {folders}; do
  [ -z "$found" ] && [ -x "$folder/$1" ] && [ "$(stat -Lc %u "$folder/$1" "$folder")" = "0
0" ] && found="$folder/$1"
done
[ -n "$found" ] || exit 127
shift; echo "hangtop: $found"; exec "$found" "$@"
"""


def shell_command(op: str, sizes: tuple[int, ...], gpus: int) -> list[str]:
    """Words that look for the program of an operation on a node and run it over all GPUs, from size to size."""
    script = _SCRIPT.format(folders=" ".join(f'"{folder}"' for folder in FOLDERS)).strip()
    options = ["-b", str(min(sizes)), "-e", str(max(sizes)), "-f", "2", "-g", str(gpus), "-n", "10", "-w", "2"]
    return ["sh", "-c", script, "sh", PROGRAMS[op], *options]


def describe(op: str, sizes: tuple[int, ...], gpus: int) -> str:
    """The command for the person who is asked."""
    return f"{PROGRAMS[op]} {shlex.join(shell_command(op, sizes, gpus)[5:])}"


def across(tests: Sequence[NcclTest]) -> str:
    """The command that runs on all GPUs of these nodes together what ran on each by itself; empty for less than two.

    One process a GPU, as nccl-tests' README has it for several nodes; the programs must have been built with MPI=1.
    """
    first = next((test for test in tests if test.figures), None)
    hosts = {test.node: test.ranks for test in tests if first and test.figures and test.program == first.program}
    if first is None or len(hosts) < 2:
        return ""
    sizes = [figure.size for figure in first.figures]
    places = ",".join(f"{node}:{gpus}" for node, gpus in hosts.items())
    words = ["mpirun", "-np", str(sum(hosts.values())), "-H", places]
    return shlex.join([*words, first.program, "-b", str(min(sizes)), "-e", str(max(sizes)), "-f", "2", "-g", "1"])


async def run(
    transport: Transport, node: ProbeNode, op: str, sizes: tuple[int, ...], python: str, seconds: float = SECONDS
) -> NcclTest | None:
    """Run it on one node with the environment of its rank; None when the node does not have it.

    Never raises for what the node does: the reason is in ``why``. Everything started is ended, also on cancel.
    """
    said = bytearray()
    arguments = {
        "pid": node.pid,
        "python": "",
        "env": {"NCCL_DEBUG": "WARN"},
        "command": shell_command(op, sizes, node.gpus),
    }
    packed = payload.pack("collectors.node.processes.launch", arguments)
    limits = Limits(total=MOST)
    running = Running(
        transport, launch_command(python), packed, lambda data: _keep(said, data), raw=True, limits=limits
    )
    try:
        async with running:
            status = await running.ended(seconds)
    except TransportError as error:
        return NcclTest(node.name, PROGRAMS[op], 0, [], None, str(error))
    except TimeoutError:
        return _result(node, op, clean_bytes(bytes(said)), f"did not end within {seconds:.0f} s")
    if status == _MISSING and not said:
        return None
    last = running.said()
    return _result(node, op, clean_bytes(bytes(said)), "" if status == 0 else last or f"ended with status {status}")


def _keep(kept: bytearray, data: bytes) -> bool:
    kept += data
    del kept[:-KEPT]
    return False


def _result(node: ProbeNode, op: str, text: str, why: str) -> NcclTest:
    first, _, rest = text.partition("\n")
    program = first.removeprefix("hangtop: ") if first.startswith("hangtop: ") else PROGRAMS[op]
    table = parse(rest if program != PROGRAMS[op] else text)
    if not table.rows and not why:
        why = "it printed no figures"
    return NcclTest(node.name, program, table.ranks or node.gpus, _figures(op, table), _wrong(table), why)


def _figures(op: str, table: NcclTestsTable) -> list[ProbeFigure]:
    return [ProbeFigure(op, row.size, row.seconds, row.algbw, row.busbw, [], []) for row in table.rows]


def _wrong(table: NcclTestsTable) -> int | None:
    counted = [row.wrong for row in table.rows if row.wrong is not None]
    return sum(counted) if counted else None
