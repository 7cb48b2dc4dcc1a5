"""The worker on a node, under the job's own interpreter: it joins rounds, measures and reports.

torch is imported once, then one process is forked per local rank. Every line of standard input is a command for the
local ranks that it names (those under ``fresh`` are forked anew before); every line of standard output a report,
``[kind, {…}]``. Works with torch 2.1 and newer.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any, Dict, Tuple

from collectors.probes.allreduce.remote.reporting import report
from collectors.probes.allreduce.remote.round import Round


def tcp_segments() -> Tuple[int, int]:
    """Segments sent and sent again in this network namespace since boot; zeros where /proc/net/snmp is hidden."""
    try:
        with open("/proc/net/snmp", encoding="ascii") as counters:
            rows = [line.split() for line in counters if line.startswith("Tcp:")]
    except OSError:
        return 0, 0
    values = dict(zip(rows[0], rows[1]))  # noqa: B905 (strict came with Python 3.10)
    return int(values["OutSegs"]), int(values["RetransSegs"])


def write_whole_lines() -> None:
    """Make C's standard output, to which NCCL logs, write line by line.

    Into a pipe it would write blocks of 4 KB that end anywhere: reports would end up in the middle of its lines.
    """
    import ctypes

    libc = ctypes.CDLL(None)
    libc.setvbuf(
        ctypes.c_void_p.in_dll(libc, "stdout"), None, 1, ctypes.c_size_t(0)
    )  # 1 is _IOLBF, with glibc and musl


def die_with_parent() -> None:
    """Carry a parent-death signal: a forked rank never outlives the process that imported torch."""
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


def main(arguments: Dict[str, Any]) -> None:
    """Entry. ``locals``: number of local ranks, ``device``: ``cpu`` or ``cuda``."""
    signal.alarm(0)  # the launcher's heartbeat guards this process, by its parent-death signal
    started = time.monotonic()
    if arguments["device"] == "cuda":
        write_whole_lines()
    try:
        import torch
        import torch.distributed as dist
    except ImportError as error:
        report("no_torch", python=sys.executable, why=str(error))
        os._exit(3)
    report(
        "ready",
        python=sys.executable,
        torch=str(torch.__version__),
        import_s=round(time.monotonic() - started, 3),
        distributed=dist.is_available(),
        nccl=".".join(map(str, torch.cuda.nccl.version())) if arguments["device"] == "cuda" else "",
    )
    if arguments["device"] == "cpu":
        torch.set_num_threads(1)  # beside a job one core is enough, and a thread less to wait for
    ranks = [LocalRank(index, arguments["device"]) for index in range(int(arguments["locals"]))]
    with os.fdopen(0, "rb", buffering=0) as lines:
        for line in lines:
            command = json.loads(line)
            for index in command.get("fresh", []):
                ranks[index].start_anew()
            for index in command["locals"]:
                os.write(ranks[index].commands, line)
    os._exit(0)


class LocalRank:
    """One forked process, which takes its commands from a pipe."""

    def __init__(self, index: int, device: str) -> None:
        self.index = index
        self.device = device
        self._fork()

    def _fork(self) -> None:
        reader, self.commands = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.commands)
            die_with_parent()
            _serve(os.fdopen(reader, "rb", buffering=0), self.index, self.device)
            os._exit(0)
        os.close(reader)

    def start_anew(self) -> None:
        """Put a fresh process in its place: it may hang in a round that is over for everybody else."""
        os.close(self.commands)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._fork()


def _serve(commands: Any, index: int, device: str) -> None:
    """Take the rounds of one local rank, one after another, until the input ends."""
    for line in commands:
        command = json.loads(line)
        sent, again = tcp_segments()
        rank = command["ranks"][command["locals"].index(index)]
        try:
            Round(command, rank, index, device).run()
        except Exception as error:  # noqa: BLE001 (whatever torch raises is the answer)
            report("failed", id=command["id"], rank=rank, stage=Round.stage, why=_first_line(error))
        sent_after, again_after = tcp_segments()
        report("done", id=command["id"], rank=rank, segments=sent_after - sent, retransmitted=again_after - again)


def _first_line(error: BaseException) -> str:
    text = str(error).strip().split("\n")[0]
    return "%s: %s" % (type(error).__name__, text[:400])
