"""Whose ranks are on a GPU: by their pids, those of their helpers, or where both are hidden by their place."""

from __future__ import annotations

from hangtop.session.state.job_state import GpuState, NodeState, RankState


def owners_of(node: NodeState, gpu: GpuState, alive: dict[int, RankState]) -> list[RankState]:
    """Ranks on a GPU, among those of its node that are alive, by pid."""
    if len(gpu.processes) == 1 and (only := alive.get(gpu.processes[0].pid)) is not None:
        return [only]
    pids = {process.pid for process in gpu.processes}
    found = [rank for pid, rank in alive.items() if pid in pids]
    if not found and pids:
        found = [rank for rank in alive.values() if not pids.isdisjoint(rank.helpers)]
    if not found and pids_are_hidden(node):
        found = [rank for rank in alive.values() if rank.process.local_rank == gpu.index]
    return found


def pids_are_hidden(node: NodeState) -> bool:
    """True where nvidia-smi names no process of the job, as in containers: then the local rank is all there is."""
    return not any(process.pid in node.ranks for process in node.gpu_processes)
