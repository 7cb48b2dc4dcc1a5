"""Whose process a communicator's member is: NCCL's logs and RAS name hosts and pids, not global ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from collectors.samples.collectives import RasRank
from collectors.samples.logs import CommProgress
from hangtop.diagnosis.job import Job


class Owners:
    """Global ranks by host and pid."""

    def __init__(self, job: Job) -> None:
        self._by_pid: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for rank in job.ranks:
            self._by_pid[rank.process.pid].append((rank.node, rank.rank))
        self._names = {name: _names(job, name) for name in job.nodes} if len(job.nodes) > 1 else {}
        self._largest = max((one.size for one in job.progress), default=0)

    def of(self, host: str, pid: int) -> tuple[int, ...]:
        """Ranks of the processes with this pid; where there are several nodes, of those that may be that host."""
        return tuple(
            rank for node, rank in self._by_pid.get(pid, ()) if node not in self._names or host in self._names[node]
        )

    def of_progress(self, one: CommProgress) -> int | None:
        """Rank of who launched a collective; the place in the largest communicator where no process tells."""
        if one.global_rank is not None:
            return one.global_rank
        known = self.of(one.host, one.pid)
        if len(known) == 1:
            return known[0]
        return one.rank if one.size == self._largest else None

    def of_members(self, members: Iterable[RasRank]) -> tuple[int, ...]:
        """Ranks of these members, as far as their processes are known."""
        return tuple(sorted({rank for member in members for rank in self.of(member.host, member.pid)}))


def _names(job: Job, node: str) -> frozenset[str]:
    """Everything that NCCL or RAS may call a node: its addresses and its names."""
    known = job.nodes[node]
    addresses = {address.partition("/")[0] for interface in known.network.interfaces for address in interface.addresses}
    hostname = known.hello.hostname if known.hello else ""
    return frozenset({*addresses, node, hostname, hostname.partition(".")[0]} - {""})
