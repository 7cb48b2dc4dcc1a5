"""Which ranks workers of Ray are, by Ray's own state on this node: its files, and the list of its dashboard."""

from __future__ import annotations

from collections import Counter
from typing import AbstractSet, Dict, List, Set, Tuple

from collectors.node.files import read_or_none
from collectors.node.processes.procfs import parse_status
from collectors.node.ranks.ray_worker import RayWorker, node_of, told_rank, worker_of


def ranks_of(proc: str, pids: AbstractSet[int]) -> Dict[int, int]:
    """Ranks of those that are workers of Ray and whose number it tells; of a session none that two would have."""
    workers: Dict[int, Tuple[RayWorker, int]] = {}
    for pid in pids:
        worker = worker_of(pid, proc)
        status = parse_status(read_or_none("%s/%d/status" % (proc, pid)) or b"", pid) if worker is not None else None
        if worker is not None and status is not None:
            workers[pid] = worker, status.uid
    found = {}
    for pid, (worker, uid) in workers.items():
        rank = told_rank(worker, uid)
        if rank is not None:
            found[pid] = rank
    for session in {worker.session for pid, (worker, _) in workers.items() if pid not in found}:
        mine = [pid for pid, (worker, _) in workers.items() if worker.session == session and pid not in found]
        found.update(_by_names(proc, session, mine, workers))
    taken = Counter((workers[pid][0].session, rank) for pid, rank in found.items())
    return {pid: rank for pid, rank in found.items() if taken[workers[pid][0].session, rank] == 1}


def _by_names(proc: str, session: str, pids: List[int], workers: Dict[int, Tuple[RayWorker, int]]) -> Dict[int, int]:
    """Those that the names of the actors tell, where a dashboard runs here."""
    from collectors.node.ranks.ray_actors import actors, numbers  # most nodes have no use for it

    found: Dict[int, int] = {}
    asked: Set[str] = set()
    for pid in pids:
        worker, uid = workers[pid]
        node = node_of(worker, uid)
        if not node or node in asked:
            continue
        asked.add(node)
        told = numbers(actors(pid, session, proc))
        for other in pids:
            own = parse_status(read_or_none("%s/%d/status" % (proc, other)) or b"", other)
            if own is not None and (node, own.inner_pid) in told and node_of(*workers[other]) == node:
                found[other] = told[node, own.inner_pid]
    return found
