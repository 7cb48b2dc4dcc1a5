"""Whose process a communicator's member is: NCCL's logs and RAS name hosts and pids, not global ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from collectors.samples.collectives import RasRank, RecorderDump
from collectors.samples.logs import CommProgress
from hangtop.diagnosis.job import Job, Node

CLOCKS_APART = 5.0
"""Seconds by which the clock in a dump may differ from ours."""


def own_dumps(job: Job) -> tuple[RecorderDump, ...]:
    """Flight recorder dumps of the job's processes: live, none that is older than the process that has the rank now."""
    started = {rank.rank: rank.process.started for rank in job.ranks} if job.live else {}
    return tuple(
        dump for dump in job.recorders if dump.at is None or dump.at >= started.get(dump.rank, dump.at) - CLOCKS_APART
    )


class Owners:
    """Global ranks by host and pid."""

    def __init__(self, job: Job) -> None:
        # not the job itself, which holds this: what holds itself is freed late, and is a hundred megabytes
        self._theirs, self._others, self._nodes = job.ranks, job.others, job.nodes
        self._live = job.live and bool(job.ranks)
        self._own = _own_addresses(job)
        self._largest = max((one.size for one in job.progress), default=0)

    # Worked out for who asks: of most jobs no log and no RAS tells of members, and tables of 16,384 ranks take memory.

    @cached_property
    def _ranks(self) -> frozenset[int]:
        return frozenset(rank.rank for rank in self._theirs)

    @cached_property
    def _alien(self) -> frozenset[int]:
        """Processes of other jobs, by pid."""
        return frozenset(rank.own_pid for rank in self._others) - {rank.own_pid for rank in self._theirs}

    @cached_property
    def _by_pid(self) -> Mapping[int, Sequence[tuple[str, int]]]:
        found: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for rank in self._theirs:
            found[rank.own_pid].append((rank.node, rank.rank))
        return found

    @cached_property
    def _names(self) -> Mapping[str, frozenset[str]]:
        """What each node may be called, where there are several."""
        nodes = self._nodes
        return {name: _names(name, node) for name, node in nodes.items()} if len(nodes) > 1 else {}

    def of(self, host: str, pid: int) -> tuple[int, ...]:
        """Ranks of the processes with this pid; where there are several nodes, of those that may be that host.

        In containers, where all have the same pids, the one that is seen to have that address there.
        """
        exact = tuple(rank for _, rank in self._by_pid.get(pid, ()) if host in self._own.get(rank, ()))
        return exact or tuple(
            rank for node, rank in self._by_pid.get(pid, ()) if node not in self._names or host in self._names[node]
        )

    def is_ours(self, members: Iterable[RasRank | CommProgress]) -> bool:
        """Whether a communicator may be this job's: live, one of its processes must be one of the job's ranks.

        Other jobs on a node write logs and answer RAS, too; of files nothing tells whose they are.
        """
        return not self._live or any(
            self.of(member.host, member.pid)
            or (
                isinstance(member, CommProgress) and member.global_rank in self._ranks and member.pid not in self._alien
            )
            for member in members
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


def _own_addresses(job: Job) -> dict[int, frozenset[str]]:
    """Addresses that ranks have in networks of their own, by looks at them."""
    looks = [(node, dump) for node, dump in zip(job.stack_nodes, job.stacks, strict=False) if dump.addresses]
    ranks = {(rank.node, rank.process.pid): rank.rank for rank in job.ranks} if looks else {}
    found: dict[int, frozenset[str]] = {}
    for node, dump in looks:
        rank = ranks.get((node, dump.rank_pid))
        if rank is not None:
            found[rank] = found.get(rank, frozenset()) | frozenset(dump.addresses)
    return found


def _names(name: str, known: Node) -> frozenset[str]:
    """Everything that NCCL or RAS may call a node: its addresses and its names."""
    addresses = {address.partition("/")[0] for interface in known.network.interfaces for address in interface.addresses}
    hostname = known.hello.hostname if known.hello else ""
    return frozenset({*addresses, name, hostname, hostname.partition(".")[0]} - {""})
