"""Who is on which GPU: two ranks on one, and processes of other runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set

from collectors.samples.gpus import GpuProcess
from hangtop.diagnosis.evidence.gpus import gpu_name, ranks_on_gpu
from hangtop.diagnosis.finding import Evidence, Finding, Observer, next_step
from hangtop.diagnosis.job import Gpu, Job, Node, Rank
from hangtop.diagnosis.node_names import nodes_text
from hangtop.diagnosis.phrasing import count, folded, listed, ranks_on, ranks_text, size
from hangtop.diagnosis.roster import living_on, started_twice
from hangtop.diagnosis.tables.thresholds import MEMORY_IDLE_BYTES

RELEASED_S = 20.0
"""Ours: for so long after its end a process may still be listed on a GPU: its list is read seldom, and memory of
tens of gigabytes is given back in seconds."""


def gpu_assignment_conflict(job: Job) -> Iterator[Finding]:
    """gpu_assignment_conflict: ranks that share their only GPU.

    A rank that merely has a context on GPU 0 beside its own GPU is no conflict. GPUs split by MIG are left out.
    """
    for name, node in sorted(job.nodes.items()):
        only: dict[tuple[int, ...], list[Rank]] = defaultdict(list)
        for rank in living_on(job, name):
            if rank.rank >= 0 or rank.process.master_port is not None:  # others may be notebooks of one user
                only[tuple(rank.gpus)].append(rank)
        idle = [str(g.index) for g in node.gpus if not g.processes and _used(g) < MEMORY_IDLE_BYTES]
        free = f", while GPU {listed(idle)} is idle" if idle else ""
        for gpu in sorted(node.gpus, key=lambda gpu: gpu.index):
            sharing = only.get((gpu.index,), [])
            if len(sharing) < 2 or (gpu.facts and gpu.facts.mig.lower() == "enabled"):
                continue
            numbers = tuple(sorted(rank.rank for rank in sharing))
            yield Finding(
                "gpu_assignment_conflict", "warning", 0.92,
                f"{ranks_text(numbers)} share GPU {gpu.index} on {name}{free}",
                ranks=numbers, nodes=(name,), gpus=(gpu_name(node, gpu),), evidence=tuple(map(_given, sharing[:4])),
                advice="Call torch.cuda.set_device(LOCAL_RANK) before anything else touches CUDA, and leave "
                "CUDA_VISIBLE_DEVICES alone under torchrun.",
            )  # fmt: skip


def zombie_process(job: Job) -> Iterator[Finding]:
    """zombie_process: processes of an earlier run that are still alive, or that use GPUs of the job and are not of it.

    Another job that is at work on the same node is none of this job's business.
    """
    seconds = {(other.node, other.process.pid) for _, other in started_twice(job)} if job.others else set()
    left = [one for one in job.others if (one.node, one.process.pid) not in seconds and left_over(one, job.others)]
    by_node: dict[str, list[Rank]] = defaultdict(list)
    for one in left:
        by_node[one.node].append(one)
    yield from (_left_on(name, others) for name, others in sorted(by_node.items()))
    # bystanders live and say what they are: notebooks and servers, nobody's leftovers
    known = {(one.node, one.process.pid) for one in (*left, *job.bystanders)}
    at_work = {(one.node, one.process.pid) for one in job.others} - known
    for name, node in sorted(job.nodes.items()):
        own = _own_pids(job, node)
        used = {gpu.index: [p for p in _of_others(gpu, own) if (name, p.pid) not in known] for gpu in node.gpus}
        used = {index: found for index, found in sorted(used.items()) if found and ranks_on_gpu(job, node, index)}
        if used:
            yield _also_used(job, node, used, at_work)


def _also_used(
    job: Job, node: Node, used: Mapping[int, Sequence[GpuProcess]], at_work: Set[tuple[str, int]]
) -> Finding:
    """GPUs of the job on one node that processes of others use."""
    processes = {p.pid: p for found in used.values() for p in found}
    text = listed([f"pid {p.pid} ({p.name or 'unknown'}, {size(p.memory or 0)})" for p in processes.values()])
    gpus = f"GPU {folded(used)}" if len(used) == 1 else f"GPUs {folded(used)}"
    by = "a process that is" if len(processes) == 1 else "processes that are"
    alive = all((node.name, pid) in at_work for pid in processes)
    return Finding(
        "zombie_process", "warning", 0.6,
        f"{gpus} on {node.name} {'is' if len(used) == 1 else 'are'} also used by {by} not of this job: {text}",
        ranks=tuple(sorted({rank for index in used for rank in ranks_on_gpu(job, node, index)})),
        nodes=(node.name,), gpus=tuple(f"{node.name}:{index}" for index in used),
        evidence=(Evidence(Observer.GPU, f"nvidia-smi on {node.name}", None, f"{gpus}: {text}"),),
        advice="Another job that is at work was given the same GPUs: look at how GPUs are handed out." if alive
        else f"If {'it is' if len(processes) == 1 else 'they are'} left over from an earlier run, end "
        f"{'it' if len(processes) == 1 else 'them'}.",
    )  # fmt: skip


def _left_on(name: str, others: Sequence[Rank]) -> Finding:
    """Processes of another run on one node."""
    holds = sorted({f"{other.node}:{index}" for other in others for index in other.gpus})
    pids = [str(other.process.pid) for other in others]
    return Finding(
        "zombie_process", "warning", 0.8 if holds else 0.65,
        f"{count(len(others), 'process', 'processes')} of another run still on {nodes_text([name])}: "
        f"pid {listed(pids)}{f', on GPU {listed(holds)}' if holds else ''}",
        nodes=(name,), gpus=tuple(holds), evidence=tuple(map(_identity, others[:4])),
        advice=f"If that run is over, end them: kill {' '.join(pids[:8])}",
        next=(next_step("K", "repair", "orphans", name),),
    )  # fmt: skip


def left_over(other: Rank, others: Sequence[Rank]) -> bool:
    """Whether nobody who started a process of another run is left, for its parent is an init.

    Inside a container the first process may be the launcher: there ranks of its run must be missing.
    """
    process = other.process
    if not process.container or process.container.startswith("job_"):  # Slurm's cgroup has the node's processes
        return process.parent <= 1
    run = (process.run_id, process.master_port, process.world_size, process.container)
    here = sum(
        run == (its.run_id, its.master_port, its.world_size, its.container) and one.node == other.node
        for one in others
        for its in [one.process]
    )
    return process.local_world_size is not None and here < process.local_world_size


def _used(gpu: Gpu) -> int:
    return gpu.looks[-1].value.memory_used or 0 if gpu.looks else 0


def _own_pids(job: Job, node: Node) -> set[int]:
    """Ranks and helpers on a node whose pids the driver knows, those included that have just ended.

    Empty where pids cannot be compared: inside a container the driver lists host pids, of which none matches.
    """
    living = living_on(job, node.name)
    own = {rank.process.pid for rank in living} | {helper.pid for rank in living for helper in rank.helpers}
    own |= {
        rank.process.pid for rank in job.ranks_of(node.name)
        if rank.gone_at is not None and job.now - rank.gone_at < RELEASED_S
    }  # fmt: skip
    return own if any(process.pid in own for gpu in node.gpus for process in gpu.processes) else set()


def _of_others(gpu: Gpu, own: Set[int]) -> list[GpuProcess]:
    """Processes of real size on this GPU that are not ``own``; none where nothing is known of those."""
    return [p for p in gpu.processes if own and p.pid not in own and (p.memory or 0) >= MEMORY_IDLE_BYTES]


def _given(rank: Rank) -> Evidence:
    visible = rank.process.env.get("CUDA_VISIBLE_DEVICES", "(not set)")
    on = listed([str(index) for index in rank.gpus]) or "none"
    text = f"LOCAL_RANK={rank.process.local_rank}, CUDA_VISIBLE_DEVICES={visible}, on GPU {on}"
    return Evidence(Observer.CONTEXT, f"{ranks_on([rank.rank], [rank.node])}, pid {rank.process.pid}", None, text)


def _identity(rank: Rank) -> Evidence:
    process = rank.process
    text = f"RANK={rank.rank}, run {process.run_id or 'unnamed'}, user {process.user}: {process.command}"
    return Evidence(Observer.PROCESS, f"/proc/{process.pid}/environ on {rank.node}", process.started, text)
