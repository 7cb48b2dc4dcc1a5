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
        self._live = job.live and bool(job.ranks)
        self._ranks = frozenset(rank.rank for rank in job.ranks)
        self._other_jobs = frozenset(rank.own_pid for rank in job.others) - {rank.own_pid for rank in job.ranks}
        sizes = [one.size for one in job.progress]
        self._largest = max([*sizes, *(comm.size for look in job.ras for comm in look.value.communicators)], default=0)
        self._by_pid: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for rank in job.ranks:
            self._by_pid[rank.own_pid].append((rank.node, rank.rank))
        self._names = {
            name: {word for each in names_of(node) for word in (each, each.partition(".")[0])}
            for name, node in job.nodes.items()
        }

    def of(self, host: str, pid: int) -> int | None:
        """Rank of the process with this pid, where there are several nodes the one on that host; None for several."""
        found = self._by_pid.get(pid, ())
        ranks = [rank for node, rank in found if len(self._names) < 2 or host in self._names.get(node, {host})]
        return ranks[0] if len(ranks) == 1 else None

    def is_ours(self, members: Iterable[RasRank | CommProgress]) -> bool:
        """Whether a communicator may be this job's: live, one of its processes must be one of the job's ranks.

        Other jobs on a node write logs and answer RAS, too; of files nothing tells whose they are.
        """
        return not self._live or any(
            self.of(one.host, one.pid) is not None
            or (isinstance(one, CommProgress) and one.global_rank in self._ranks and one.pid not in self._other_jobs)
            for one in members
        )

    def rank_of(self, one: RasRank | CommProgress, size: int) -> int | None:
        """Global rank of a member; where no process tells, its place in the largest communicator is the rank."""
        if isinstance(one, CommProgress) and one.global_rank is not None:
            return one.global_rank
        known = self.of(one.host, one.pid)
        return known if known is not None or self._live or size < self._largest else one.rank
