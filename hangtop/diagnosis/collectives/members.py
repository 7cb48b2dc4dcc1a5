"""Which rank a communicator's member is: NCCL's logs and RAS name hosts and pids, not global ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from collectors.samples.collectives import RasRank
from collectors.samples.logs import CommProgress
from hangtop.diagnosis.addresses import names_of
from hangtop.diagnosis.job import Job


class CommRankResolver:
    """Global ranks by host and pid. It holds no job: what a job holds and holds the job is freed late."""

    def __init__(self, job: Job) -> None:
        ranks = job.ranks
        self._live = job.live and bool(ranks)
        self._largest = max((one.size for one in job.progress), default=0)
        self._ranks = frozenset(rank.rank for rank in ranks)
        self._other_jobs = frozenset(rank.own_pid for rank in job.others) - {rank.own_pid for rank in ranks}
        self._by_pid: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for rank in ranks:
            self._by_pid[rank.own_pid].append((rank.node, rank.rank))
        self._names = {name: names_of(node) | _short(names_of(node)) for name, node in job.nodes.items()}
        self._own = _own_addresses(job)

    def of(self, host: str, pid: int) -> tuple[int, ...]:
        """Ranks of the processes with this pid; where there are several nodes, of those that may be that host.

        In containers, where all have the same pids, the one that is seen to have that address there.
        """
        found = self._by_pid.get(pid, ())
        exact = tuple(rank for _, rank in found if host in self._own.get(rank, ()))
        alone = len(self._names) < 2
        return exact or tuple(rank for node, rank in found if alone or host in self._names.get(node, {host}))

    def is_ours(self, members: Iterable[RasRank | CommProgress]) -> bool:
        """Whether a communicator may be this job's: live, one of its processes must be one of the job's ranks.

        Other jobs on a node write logs and answer RAS, too; of files nothing tells whose they are.
        """
        return not self._live or any(
            self.of(member.host, member.pid)
            or (
                isinstance(member, CommProgress)
                and member.global_rank in self._ranks
                and member.pid not in self._other_jobs
            )
            for member in members
        )

    def of_progress(self, one: CommProgress) -> int | None:
        """Rank that launched a collective; the place in the largest communicator where no process tells."""
        if one.global_rank is not None:
            return one.global_rank
        known = self.of(one.host, one.pid)
        if len(known) == 1:
            return known[0]
        return one.rank if one.size == self._largest else None

    def of_members(self, members: Iterable[RasRank]) -> tuple[int, ...]:
        """Ranks of these members, as far as their processes are known."""
        return tuple(sorted({rank for member in members for rank in self.of(member.host, member.pid)}))


def _short(names: Iterable[str]) -> set[str]:
    return {name.partition(".")[0] for name in names if name[:1].isalpha()}


def _own_addresses(job: Job) -> dict[int, frozenset[str]]:
    """Addresses that ranks have in networks of their own, by samples of their stacks."""
    samples = [(node, dump) for node, dump in zip(job.stack_nodes, job.stacks, strict=False) if dump.addresses]
    ranks = {(rank.node, rank.process.pid): rank.rank for rank in job.ranks} if samples else {}
    found: dict[int, frozenset[str]] = {}
    for node, dump in samples:
        rank = ranks.get((node, dump.rank_pid))
        if rank is not None:
            found[rank] = found.get(rank, frozenset()) | frozenset(dump.addresses)
    return found
