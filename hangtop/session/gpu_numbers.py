"""Numbers for ranks that do not say theirs, by their GPUs: processes that one parent started one after another.

``mp.spawn`` starts rank 0 first, and its processes take the GPUs in their order, as NCCL counts them. Either alone is a
guess. Where both say the same of every process of a job that meets at this node's own address, and so is on this node
alone, it is a number; anything else leaves them without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hangtop.session.apply.gpus import gpu_users
from hangtop.session.one_job import one_job
from hangtop.session.state.job_state import NodeState, RankState

SPAWNED = "multiprocessing.spawn import spawn_main"
"""In the command of what Python's multiprocessing starts."""
LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


def numbers_by_gpus(nodes: Mapping[str, NodeState], name: str) -> list[tuple[RankState, int]]:
    """The ranks of this node, each with its number; nothing where that leaves any doubt."""
    node = nodes[name]
    if not node.gpu_processes or not any(rank.process.rank < 0 for rank in node.ranks.values()):
        return []
    ranks = [rank for rank in one_job(node.ranks.values()).ranks if rank.gone_at is None]
    if not _are_a_whole_job(ranks) or any(other.ranks for other in nodes.values() if other is not node):
        return []
    gpus = [_gpu_of(rank, node) for rank in ranks]
    known = [gpu for gpu in gpus if gpu is not None]
    if len(set(known)) < len(ranks):
        return []
    by_gpu = [rank for _, rank in sorted(zip(known, ranks, strict=True), key=lambda pair: pair[0])]
    by_start = sorted(ranks, key=lambda rank: (rank.process.started, rank.process.pid))
    if by_gpu != by_start:
        return []
    return [(rank, number) for number, rank in enumerate(by_start)]


def _are_a_whole_job(ranks: Sequence[RankState]) -> bool:
    """Whether one parent spawned them, for a job that is on this machine alone, and nobody says a number."""
    return (
        len(ranks) > 1
        and len({rank.process.parent for rank in ranks}) == 1
        and all(rank.process.rank < 0 and not rank.process.label for rank in ranks)
        and all(SPAWNED in rank.process.command for rank in ranks)
        and all(rank.process.master_addr in LOCAL for rank in ranks)
        and all(rank.process.world_size in (None, len(ranks)) for rank in ranks)
    )


def _gpu_of(rank: RankState, node: NodeState) -> str | None:
    """The PCI address of the one GPU that a process is on; None where it is on none, on several, or not alone."""
    pids = {other.process.pid for other in node.ranks.values()}
    on = gpu_users(node)
    mine = [address for address, users in on.items() if any(one.pid == rank.process.pid for one in users)]
    if len(mine) != 1 or sum(one.pid in pids for one in on[mine[0]]) != 1:
        return None
    return mine[0].lower()
