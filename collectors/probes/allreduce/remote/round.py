"""One round of the collective probe on one rank: the ranks meet, then time each operation.

A round is one process group. Its rank 0 opens a store on a free port and reports it, and the other ranks sign in there.
Rank 0 names absent ranks before any collective is tried, so that an absent node costs seconds, not the collective's
time-out.
"""

from __future__ import annotations

import json
import socket
import time
from datetime import timedelta
from typing import Any, Dict, List, Tuple

from collectors.probes.allreduce.remote.reporting import report

STRAGGLER_WORK = 160
"""Edge of the square matrices that every rank multiplies in a straggler round: about a millisecond of one core."""


class Round:
    """One process group, from its store to its end."""

    stage = ""
    """Where the present round is, for the report of a failure."""

    def __init__(self, command: Dict[str, Any], rank: int, index: int, device: str) -> None:
        self.command = command
        self.rank = rank
        self.world = int(command["world"])
        self.index = index
        self.device = "cuda:%d" % index if device == "cuda" else "cpu"
        self.timeout = timedelta(seconds=float(command["timeout"]))

    def run(self) -> None:
        """Meet, then measure what the command asks for."""
        import torch
        import torch.distributed as dist

        if self.device != "cpu":
            torch.cuda.set_device(self.index)
        Round.stage = "store"
        store = self._store()
        Round.stage = "barrier"
        if not self._everybody_is_here(store):
            return
        if self.command["reach"] and self.rank in (0, self.command["reach"][0]):
            Round.stage = "reach"
            self._reach_the_other(store)
        Round.stage = "connect"
        backend = "nccl" if self.device != "cpu" else "gloo"
        dist.init_process_group(
            backend, store=dist.PrefixStore("group", store), rank=self.rank, world_size=self.world, timeout=self.timeout
        )
        try:
            Round.stage = "first"
            self._first()
            if self.command.get("stragglers"):
                Round.stage = "stragglers"
                self._stragglers(int(self.command["stragglers"]))
            for op in self.command["ops"]:
                Round.stage = op
                self._sizes(op)
        finally:
            # The group of a failed round may never come to an end by itself: its store and sockets go with the group.
            dist.destroy_process_group()
            store.set("left/%d" % self.rank, "1")
            if self.rank == 0:
                self._wait_for(store, "left", time.monotonic() + 2.0)

    # --- meeting -------------------------------------------------------------------------------------------------

    def _store(self) -> Any:
        import torch.distributed as dist

        host, port = self.command["store"]
        if self.rank == 0:
            store = dist.TCPStore(host, 0, None, True, timeout=self.timeout, wait_for_workers=False)
            report("store", id=self.command["id"], port=store.port)
            return store
        return dist.TCPStore(host, int(port), None, False, timeout=self.timeout, wait_for_workers=False)

    def _everybody_is_here(self, store: Any) -> bool:
        """Sign in; rank 0 waits for the others for the barrier's time and publishes which ranks came."""
        store.set("here/%d" % self.rank, "1")
        if self.rank == 0:
            missing = self._wait_for(store, "here", time.monotonic() + float(self.command["barrier"]))
            if missing:
                report("absent", id=self.command["id"], ranks=missing)
            store.set("go", json.dumps(missing))
        missing = json.loads(store.get("go"))
        return not missing

    def _reach_the_other(self, store: Any) -> None:
        """The other node has reached the store of rank 0: see that rank 0 reaches a port of its first rank too.

        Which of two ranks connects to the other is the library's choice, so a node that drops what comes in would be
        seen with some partners and not with others, after the time-out of a collective. Raises OSError on both.
        """
        if self.rank > 0:
            family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
            with socket.create_server(("", 0), family=family, dualstack_ipv6=family == socket.AF_INET6) as server:
                store.set("port", str(server.getsockname()[1]))
                why = store.get("reached").decode()
        else:
            host, port = self.command["reach"][1], int(store.get("port"))
            try:
                socket.create_connection((host, port), timeout=float(self.command["barrier"])).close()
                why = ""
            except OSError as error:
                why = "a port of %s is not reached: %s" % (host, error)
            store.set("reached", why or "yes")
        if why not in ("", "yes"):
            raise ConnectionError(why)

    def _wait_for(self, store: Any, name: str, deadline: float) -> List[int]:
        """Ranks whose key is not there at the deadline."""
        missing = list(range(self.world))
        while missing and time.monotonic() < deadline:
            missing = [rank for rank in missing if not store.check(["%s/%d" % (name, rank)])]
            if missing:
                time.sleep(0.01)
        return missing

    # --- measuring -----------------------------------------------------------------------------------------------

    def _sync(self) -> None:
        if self.device != "cpu":
            import torch

            torch.cuda.synchronize()

    def _slowest(self, seconds: float) -> float:
        """The same number on every rank, so that all take the same decisions."""
        import torch
        import torch.distributed as dist

        value = torch.tensor([seconds], dtype=torch.float64, device=self.device)
        dist.all_reduce(value, op=dist.ReduceOp.MAX)
        return float(value.item())

    def _first(self) -> None:
        """Round trip of the smallest collective: the median of several, after one that opens the connections."""
        import torch
        import torch.distributed as dist

        value = torch.zeros(1, device=self.device)
        times = []
        for _ in range(11):
            started = time.perf_counter()
            dist.all_reduce(value)
            self._sync()
            times.append(time.perf_counter() - started)
        times = sorted(times[1:])
        median = self._slowest(times[len(times) // 2])
        if self.rank == 0:
            report("latency", id=self.command["id"], median_us=round(median * 1e6, 1))

    def _stragglers(self, rounds: int) -> None:
        """Every rank does the same work, then all meet: the time of each rank's work tells which rank is slow."""
        import torch
        import torch.distributed as dist

        matrix = torch.ones(STRAGGLER_WORK, STRAGGLER_WORK, device=self.device)
        one = torch.zeros(1, device=self.device)
        work = []
        for _ in range(rounds):
            started = time.perf_counter()
            torch.mm(matrix, matrix)
            self._sync()
            work.append(time.perf_counter() - started)
            dist.all_reduce(one)
            self._sync()
        work.sort()
        mine = torch.tensor([work[len(work) // 2]], dtype=torch.float64, device=self.device)
        every = [torch.zeros_like(mine) for _ in range(self.world)]
        dist.all_gather(every, mine)
        if self.rank == 0:
            report("work", id=self.command["id"], rounds=rounds, seconds=[float(value.item()) for value in every])

    def _sizes(self, op: str) -> None:
        """Double the size until the last, or until one costs more than the patience of the whole."""
        for size in self.command["sizes"]:
            Round.stage = "%s of %d bytes" % (op, size)
            seconds, correct, bitwise = self._one_size(op, int(size))
            if self.rank == 0:
                report(
                    "figure", id=self.command["id"], op=op, bytes=int(size), seconds=seconds,
                    wrong=[rank for rank, good in enumerate(correct) if not good], odd=bitwise,
                )  # fmt: skip
            if seconds > float(self.command["patience"]):
                return

    def _one_size(self, op: str, size: int) -> Tuple[float, List[bool], List[int]]:
        """Seconds of one operation (slowest rank, mean over repeats), ranks with wrong values, with other bits."""
        from collectors.probes.allreduce.remote.operations import Operation

        operation = Operation(op, size, self.rank, self.world, self.device)
        started = time.perf_counter()
        operation.run()
        self._sync()
        first = self._slowest(time.perf_counter() - started)
        repeats = max(1, min(20, int(float(self.command["budget"]) / max(first, 1e-6))))
        operation.reset()
        self._sync()
        started = time.perf_counter()
        for _ in range(repeats):
            operation.run()
        self._sync()
        seconds = self._slowest((time.perf_counter() - started) / repeats)
        operation.reset()
        operation.run()
        self._sync()
        correct, bitwise = operation.verify()
        return seconds, correct, bitwise
