"""The all_reduce probe on a node, in the job's own interpreter: take rounds, measure and report.

The program imports torch once and forks a process for each rank of each round, so that a hung rank blocks no other.
Each line of standard input is a round: its ranks on this node, and the store where all its ranks meet. Standard output
carries reports (:class:`WorkerReport`) and NCCL's log. Works with torch 2.1 and newer.

A round is one process group. Its rank 0 opens a store on a free port and reports the port; the other ranks sign in at
the store. Rank 0 names absent ranks before the first collective, so that an absent node costs seconds, not the
time-out of a collective.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from datetime import timedelta
from typing import Any, Dict, List, NamedTuple

from collectors.node import watchdog
from collectors.node.wire import say

BUDGET = 0.25
"""Seconds for the repeats of one size."""
PATIENCE = 2.0
"""Seconds of one operation above which no larger size is tried."""
LEAVING = 2.0
"""Seconds that rank 0 keeps the store open for ranks that are leaving."""


class WorkerReport(NamedTuple):
    """A line from a worker; each kind uses some of the fields."""

    kind: str
    """``no_torch``, ``ready``, ``store``, ``absent``, ``figure``, ``failed``, ``done``; ``gone`` (local): the worker
    has ended."""
    id: int = 0
    """Number of the round."""
    rank: int = 0
    ranks: List[int] = []  # noqa: RUF012 (a NamedTuple is never changed)
    """Absent ranks; for a figure, ranks with wrong values."""
    why: str = ""
    port: int = 0
    """Port of the store."""
    size: int = 0
    """Bytes."""
    seconds: float = 0.0


def report(kind: str, **fields: Any) -> None:
    """Write one line, short enough for one write, so that several processes can share the channel."""
    say(WorkerReport(kind, **fields))


def main(arguments: Dict[str, Any]) -> None:
    """Entry point. ``device``: ``cpu`` or ``cuda``."""
    signal.alarm(0)  # the launcher's heartbeat guards this process, by its parent-death signal
    device = arguments["device"]
    try:
        import torch
        import torch.distributed
    except ImportError as error:
        report("no_torch", why="%s has no torch: %s" % (sys.executable, error))
        os._exit(3)
    report("ready")
    if device == "cpu":
        torch.set_num_threads(1)  # one core is enough next to a job
    children: Dict[int, int] = {}
    with os.fdopen(0, "rb", buffering=0) as lines:
        for line in lines:
            if line.strip():
                command = json.loads(line)
                for local, rank in command["ranks"]:
                    _end(children.pop(local, 0))
                    children[local] = _fork(command, local, rank, device)
    os._exit(0)


def _end(pid: int) -> None:
    """Kill the process of an earlier round, which may hang."""
    if pid:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _fork(command: Dict[str, Any], local: int, rank: int, device: str) -> int:
    """Start one rank of a round and return its pid."""
    die_with_parent = watchdog.child_setup()
    pid = os.fork()
    if pid:
        return pid
    if die_with_parent is not None:
        die_with_parent()
    try:
        RankRound(command, rank, local, device).run()
    except Exception as error:  # noqa: BLE001 (whatever torch raises is the answer)
        first = str(error).strip().split("\n")[0][:400]
        why = "%s: %s: %s" % (RankRound.stage, type(error).__name__, first)
        report("failed", id=command["id"], rank=rank, why=why)
    report("done", id=command["id"], rank=rank)
    os._exit(0)


class RankRound:
    """One rank of a process group, from its store to its end."""

    stage = ""
    """Where the round is, for the report of a failure."""

    def __init__(self, command: Dict[str, Any], rank: int, local: int, device: str) -> None:
        self.id = command["id"]
        self.rank = rank
        self.world = int(command["world"])
        self._command = command
        self._local = local
        self._device = "cuda:%d" % local if device == "cuda" else "cpu"
        self._timeout = timedelta(seconds=float(command["timeout"]))

    def run(self) -> None:
        """Meet the other ranks, then measure the sizes of the command."""
        import torch
        import torch.distributed as dist

        if self._device != "cpu":
            torch.cuda.set_device(self._local)
        RankRound.stage = "store"
        store = self._store()
        RankRound.stage = "barrier"
        if not self._everybody_is_here(store):
            return
        if self._command["reach"] and self.rank in (0, self._command["reach"][0]):
            RankRound.stage = "reach"
            self._reach_the_other(store)
        RankRound.stage = "connect"
        backend = "nccl" if self._device != "cpu" else "gloo"
        dist.init_process_group(
            backend, store=dist.PrefixStore("group", store), rank=self.rank, world_size=self.world,
            timeout=self._timeout,
        )  # fmt: skip
        try:
            for size in self._command["sizes"]:
                RankRound.stage = "all_reduce of %d bytes" % size
                if self._measure(int(size)) > PATIENCE:
                    break
        finally:
            # A failed round may never end by itself: destroying the group also closes its store and sockets.
            dist.destroy_process_group()
            store.set("left/%d" % self.rank, "1")
            if self.rank == 0:
                self._missing(store, "left", time.monotonic() + LEAVING)

    # --- meeting -------------------------------------------------------------------------------------------------

    def _store(self) -> Any:
        import torch.distributed as dist

        host, port = self._command["store"]
        if self.rank == 0:
            store = dist.TCPStore(host, 0, None, True, timeout=self._timeout, wait_for_workers=False)
            report("store", id=self.id, port=store.port)
            return store
        return dist.TCPStore(host, int(port), None, False, timeout=self._timeout, wait_for_workers=False)

    def _everybody_is_here(self, store: Any) -> bool:
        """Sign in; rank 0 waits for the others, at most the barrier's time, and publishes which ranks are missing."""
        store.set("here/%d" % self.rank, "1")
        if self.rank == 0:
            missing = self._missing(store, "here", time.monotonic() + float(self._command["barrier"]))
            if missing:
                report("absent", id=self.id, ranks=missing)
            store.set("go", json.dumps(missing))
        return not json.loads(store.get("go"))

    def _missing(self, store: Any, name: str, deadline: float) -> List[int]:
        """Ranks without a key in the store at the deadline."""
        missing = list(range(self.world))
        while missing and time.monotonic() < deadline:
            missing = [rank for rank in missing if not store.check(["%s/%d" % (name, rank)])]
            if missing:
                time.sleep(0.01)
        return missing

    def _reach_the_other(self, store: Any) -> None:
        """Check that rank 0 also reaches a port of the other node's first rank, which has reached the store of rank 0.

        The library chooses which of two ranks connects to the other, so a node that drops incoming connections would
        fail with some partners only, and after the time-out of a collective. Raises OSError on both ranks.
        """
        if self.rank > 0:
            family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
            with socket.create_server(("", 0), family=family, dualstack_ipv6=family == socket.AF_INET6) as server:
                store.set("port", str(server.getsockname()[1]))
                why = store.get("reached").decode()
        else:
            host, port = self._command["reach"][1], int(store.get("port"))
            try:
                socket.create_connection((host, port), timeout=float(self._command["barrier"])).close()
                why = "yes"
            except OSError as error:
                why = "a port of %s is not reached: %s" % (host, error)
            store.set("reached", why)
        if why != "yes":
            raise ConnectionError(why)

    # --- measuring -----------------------------------------------------------------------------------------------

    def _timed(self, work: Any) -> float:
        """Seconds that ``work`` takes, including its kernels on the GPU."""
        import torch

        started = time.perf_counter()
        work()
        if self._device != "cpu":
            torch.cuda.synchronize()
        return time.perf_counter() - started

    def _from_all(self, value: float) -> List[float]:
        """The values of all ranks, by rank: equal on every rank, so that all ranks decide the same."""
        import torch
        import torch.distributed as dist

        mine = torch.tensor([value], dtype=torch.float64, device=self._device)
        gathered = [torch.zeros_like(mine) for _ in range(self.world)]
        dist.all_gather(gathered, mine)
        return [float(element) for element in gathered]

    def _measure(self, size: int) -> float:
        """Measure and report one size; returns the seconds of one operation: mean over repeats, of the slowest rank.

        The values are small integers, exact in float32 up to world size 2**17, so a correct result is exact on every
        rank.
        """
        import torch
        import torch.distributed as dist

        base = torch.arange(max(1, size // 4), device=self._device).remainder_(7).to(torch.float32)
        buffer = base + (self.rank + 1)
        first = max(self._from_all(self._timed(lambda: dist.all_reduce(buffer))))
        right = bool(torch.equal(buffer, base * self.world + sum(range(1, self.world + 1))))
        answers = self._from_all(float(right))
        repeats = max(1, min(20, int(BUDGET / max(first, 1e-6))))
        buffer.zero_()  # or the values would grow with each repeat
        seconds = max(self._from_all(self._timed(lambda: [dist.all_reduce(buffer) for _ in range(repeats)]) / repeats))
        if self.rank == 0:
            wrong = [rank for rank, good in enumerate(answers) if not good]
            report("figure", id=self.id, size=size, seconds=seconds, ranks=wrong)
        return seconds
