"""NCCL's own counts as progress of communicators: RAS while the job hangs, and the COLL lines of NCCL's log.

RAS: counts that differ mean nothing while they move, as NCCL's manual says and every pipeline shows. Send and Recv have
no counters, and collectives in CUDA graphs (2.26 and later) move none: equal counts, RAS's "OK", never mean "healthy".
COLL lines: a rank's lines may be late, and a job in motion looks the same for a moment, so that waits by them are not
certain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from collectors.samples.collectives import RasCommunicator, RasRank
from collectors.samples.logs import CommProgress
from hangtop.diagnosis.addresses import names_of
from hangtop.diagnosis.collectives.progress import LaunchProgress, Operation
from hangtop.diagnosis.job import Job, once

POLLS = 3
"""Number of RAS answers over which a live job's counts must stand still (NCCL's manual asks for repeated queries)."""


def progress_by_ras(job: Job) -> tuple[LaunchProgress, ...]:
    """One record for each operation of each communicator of the job whose counts stood still over the last answers.

    A saved report counts by itself, but is not certain: its owner asked because the job seemed to stand still.
    """
    resolver, records, polls = comm_ranks(job), [], POLLS if job.live else min(POLLS, len(job.ras))
    states: dict[str, list[RasCommunicator]] = defaultdict(list)
    for sample in sorted(job.ras, key=lambda sample: sample.at)[-POLLS:]:
        for communicator in sample.value.communicators:
            states[communicator.comm].append(communicator)
    for comm, seen in sorted(states.items()):
        members, size = seen[0].ranks, seen[0].size
        counted = [{member.rank: member for member in state.ranks} for state in seen]
        stands = len(seen) == polls and all(by_place == counted[0] for by_place in counted)
        if not stands or not resolver.is_ours(members):
            continue
        counts = {rank: member.counts for member in members if (rank := resolver.rank_of(member, size)) is not None}
        for op in sorted(set().union(*counts.values())):
            source = f"NCCL RAS, communicator {comm}"
            last = {rank: Operation(op, by_op[op], source) for rank, by_op in counts.items() if op in by_op}
            records.append(_counted(comm, last, certain=polls == POLLS))
    return tuple(records)


def progress_by_log(job: Job) -> tuple[LaunchProgress, ...]:
    """One record for each communicator of the job that was not closed, by its last COLL lines.

    opCount gives the order if it moves; from NCCL 2.27.3 on it may stay 0, and then the lines themselves are counted.
    """
    closed = {event.data.get("comm_id") for _, event in job.events_of("nccl.end")}
    by_comm: dict[str, list[CommProgress]] = defaultdict(list)
    ordered = sorted(job.progress, key=lambda line: (line.comm, line.rank, line.launched, line.op_count, line.source))
    for line in ordered:
        if line.comm not in closed:
            by_comm[line.comm].append(line)
    resolver, records = comm_ranks(job), []
    for comm, lines in by_comm.items():
        moves = any(line.op_count for line in lines)
        if resolver.is_ours(lines):
            last = {
                rank: Operation(line.op, line.op_count if moves else line.launched, f"{line.source}:{line.line}",
                                line.at, line.dtype, str(line.elements))
                for line in lines if (rank := resolver.rank_of(line, line.size)) is not None
            }  # fmt: skip
            records.append(_counted(comm, last, certain=False))
    return tuple(records)


def _counted(comm: str, last: Mapping[int, Operation], *, certain: bool) -> LaunchProgress:
    """Counts as progress: ranks at the highest number wait for the others if they all launched one operation.

    With COLL lines, at least half of the ranks must be at that number: a job in motion has a spread of numbers. A
    broadcast's root that is alone ahead, and ranks at several places in a chain of broadcasts, wait for no rank.
    """
    top = max((operation.seq for operation in last.values()), default=0)
    ahead = {rank: operation for rank, operation in last.items() if operation.seq == top}
    names = {operation.name for operation in ahead.values()}
    on_its_way = names == {"Broadcast"} and (len(ahead) == 1 or len({operation.seq for operation in last.values()}) > 2)
    most = certain or 2 * len(ahead) >= len(last)
    waits = len(ahead) < len(last) and most and len(names) == 1 and not on_its_way
    return LaunchProgress(comm, frozenset(last), last, ahead if waits else {}, certain)


class CommRankResolver:
    """Global ranks of the members of communicators, by host and pid: NCCL's logs and RAS do not name global ranks.

    It does not refer to the job: a reference cycle would delay the end of the job's snapshot.
    """

    def __init__(self, job: Job) -> None:
        self._live = job.live and bool(job.ranks)
        self._ranks = frozenset(rank.rank for rank in job.ranks)
        self._other_jobs = frozenset(rank.own_pid for rank in job.others) - {rank.own_pid for rank in job.ranks}
        sizes = [line.size for line in job.progress]
        self._largest = max([*sizes, *(comm.size for ras in job.ras for comm in ras.value.communicators)], default=0)
        self._by_pid: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for rank in job.ranks:
            self._by_pid[rank.own_pid].append((rank.node, rank.rank))
        self._names = {
            name: {word for each in names_of(node) for word in (each, each.partition(".")[0])}
            for name, node in job.nodes.items()
        }

    def of(self, host: str, pid: int) -> int | None:
        """Rank of the process with this pid, and of several nodes on that host; None if unknown or ambiguous."""
        processes = self._by_pid.get(pid, ())
        ranks = [rank for node, rank in processes if len(self._names) < 2 or host in self._names.get(node, {host})]
        return ranks[0] if len(ranks) == 1 else None

    def is_ours(self, members: Iterable[RasRank | CommProgress]) -> bool:
        """Whether a communicator may be this job's: live, one of its processes must be one of the job's ranks.

        Other jobs on a node write logs and answer RAS, too; saved files do not show whose they are.
        """
        return not self._live or any(
            self.of(member.host, member.pid) is not None
            or (getattr(member, "global_rank", None) in self._ranks and member.pid not in self._other_jobs)
            for member in members
        )

    def rank_of(self, member: RasRank | CommProgress, size: int) -> int | None:
        """Global rank of a member; in saved files without a known process, its place in the largest communicator."""
        if isinstance(member, CommProgress) and member.global_rank is not None:
            return member.global_rank
        known = self.of(member.host, member.pid)
        return known if known is not None or self._live or size < self._largest else member.rank


comm_ranks = once(CommRankResolver)
