"""Who is on which GPU: two ranks on one, and processes that should be gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from collectors.samples.gpus import GpuProcess
from hangtop.diagnosis.evidence.devices import gpu_name, living_on, ranks_on_gpu
from hangtop.diagnosis.finding import Evidence, Finding, next_step
from hangtop.diagnosis.job import Gpu, Job, Node, Rank
from hangtop.diagnosis.node_names import nodes_text
from hangtop.diagnosis.phrasing import count, listed, ranks_on, ranks_text, size
from hangtop.diagnosis.roster import started_twice
from hangtop.diagnosis.tables.thresholds import MEMORY_IDLE_BYTES

APART = 4
"""Nodes with leftovers that have a finding each; of more all have one."""
RELEASED_S = 20.0
"""Ours: for so long after its end a process may still be listed on a GPU: its list is read seldom, and memory of
tens of gigabytes is given back in seconds."""


def gpu_assignment_conflict(job: Job) -> Iterator[Finding]:
    """gpu_assignment_conflict: ranks that share their only GPU, or whose settings leave them without one.

    Needs the GPUs of each rank (the driver's list of processes) or CUDA_VISIBLE_DEVICES and LOCAL_RANK. A rank that
    merely has a context on GPU 0 beside its own GPU is no conflict. GPUs split by MIG are left out.
    """
    told: set[frozenset[int]] = set()
    for name in sorted(job.nodes):
        node, only = job.nodes[name], defaultdict(list)
        for rank in living_on(job, name):
            if rank.rank >= 0 or rank.process.master_port is not None:  # others may be notebooks of one user
                only[rank.gpus].append(rank)
        idle = [g.index for g in node.gpus if not g.processes and _used(g) < MEMORY_IDLE_BYTES]
        free = f", while GPU {listed([str(index) for index in idle])} is idle" if idle else ""
        for gpu in sorted(node.gpus, key=lambda gpu: gpu.index):
            sharing = only.get((gpu.index,), ())
            if len(sharing) < 2 or (gpu.facts and gpu.facts.mig.lower() == "enabled"):
                continue
            numbers = tuple(sorted(rank.rank for rank in sharing))
            told.add(frozenset(numbers))
            yield Finding(
                "gpu_assignment_conflict", "warning", 0.92,
                f"{ranks_text(numbers)} share GPU {gpu.index} on {name}{free}",
                ranks=numbers, nodes=(name,), gpus=(gpu_name(node, gpu),), evidence=tuple(map(_given, sharing[:4])),
                advice="Call torch.cuda.set_device(LOCAL_RANK) before anything else touches CUDA, and leave "
                "CUDA_VISIBLE_DEVICES alone under torchrun.",
            )  # fmt: skip
        short = [rank for rank in living_on(job, name) if _without_gpu(rank, len(living_on(job, name)))]
        numbers = tuple(sorted(rank.rank for rank in short))
        if numbers and frozenset(numbers) not in told:
            yield Finding(
                "gpu_assignment_conflict", "warning", 0.7,
                f"{ranks_text(numbers)} on {name} {'has' if len(numbers) == 1 else 'have'} a LOCAL_RANK beyond the "
                "GPUs of CUDA_VISIBLE_DEVICES",
                ranks=numbers, nodes=(name,), evidence=tuple(map(_given, short[:4])),
                advice="Under torchrun every rank must see as many GPUs as there are ranks on the node.",
            )  # fmt: skip


def _without_gpu(rank: Rank, beside: int) -> bool:
    """LOCAL_RANK n counts within CUDA_VISIBLE_DEVICES: a list that is shorter leaves that rank without a GPU."""
    visible, local = rank.process.env.get("CUDA_VISIBLE_DEVICES"), rank.process.local_rank
    if visible is None or local is None or rank.process.launcher != "torchrun" or rank.gpus:
        return False
    devices = sum(bool(word.strip()) for word in visible.split(","))
    return 1 < devices <= local and beside > devices


def zombie_process(job: Job) -> Iterator[Finding]:
    """zombie_process: processes of an earlier run that are still alive, or that use GPUs of the job and are not of it.

    Needs living processes whose environment belongs to another run and that nobody who started them waits for, or GPU
    processes that are no process of this job on a node where the job's own processes can be told by their pid. Another
    job that is at work on the same node is none of this job's business, and a second process of one of its ranks no
    other run's.
    """
    seconds = {(other.node, other.process.pid) for _, other in started_twice(job)} if job.others else set()
    left = [
        other for other in job.others if (other.node, other.process.pid) not in seconds and left_over(other, job.others)
    ]
    by_node: dict[str, list[Rank]] = defaultdict(list)
    for other in left:
        by_node[other.node].append(other)
    yield from (_left_on(names, [one for name in names for one in by_node[name]]) for names in _together(by_node))
    ours = {(other.node, other.process.pid) for other in left}
    # bystanders live and say what they are: notebooks and servers, nobody's leftovers
    known = ours | {(one.node, one.process.pid) for one in job.bystanders}
    at_work = {(other.node, other.process.pid) for other in job.others} - ours
    for of_others in (False, True):
        used: dict[str, list[_UsedGpu]] = defaultdict(list)
        for node in (job.nodes[name] for name in sorted(job.nodes)):
            own = _own_pids(job, node)
            for gpu in sorted(node.gpus, key=lambda gpu: gpu.index):
                found = [p for p in _strangers(gpu, own) if (node.name, p.pid) not in known]
                alive = all((node.name, process.pid) in at_work for process in found)
                if found and alive is of_others and ranks_on_gpu(job, node, gpu.index):
                    used[node.name].append(_UsedGpu(node, gpu, found))
        for names in _together(used):
            yield _also_used(job, [one for name in names for one in used[name]], at_work=of_others)


class _UsedGpu(NamedTuple):
    """A GPU of the job, and the processes on it that are not of the job."""

    node: Node
    gpu: Gpu
    processes: Sequence[GpuProcess]

    @property
    def text(self) -> str:
        """The processes, for people."""
        return listed([f"pid {p.pid} ({p.name or 'unknown'}, {size(p.memory or 0)})" for p in self.processes])


def _together(nodes: Collection[str]) -> list[list[str]]:
    """A finding a node; one for all where there are many nodes."""
    return [[name] for name in sorted(nodes)] if len(nodes) <= APART else [sorted(nodes)]


def _also_used(job: Job, found: Sequence[_UsedGpu], *, at_work: bool) -> Finding:
    nodes = sorted({one.node.name for one in found})
    gpus = listed([str(one.gpu.index) for one in found], 8)
    which = f"GPU {gpus}" if len(found) == 1 else f"GPUs {gpus}" if len(nodes) == 1 else count(len(found), "GPU")
    several = len({(one.node.name, process.pid) for one in found for process in one.processes}) > 1
    processes = "processes that are not of this job" if several else "a process that is not of this job"
    text = "" if len(nodes) > 1 else f": {found[0].text}{' and so on' if several and len(found) > 1 else ''}"
    return Finding(
        "zombie_process", "warning", 0.6,
        f"{which} on {nodes_text(nodes)} {'is' if len(found) == 1 else 'are'} also used by {processes}{text}",
        ranks=tuple(sorted({rank for one in found for rank in ranks_on_gpu(job, one.node, one.gpu.index)})),
        nodes=tuple(nodes), gpus=tuple(gpu_name(one.node, one.gpu) for one in found),
        evidence=tuple(
            Evidence(f"nvidia-smi on {one.node.name}", None, f"GPU {one.gpu.index}: {one.text}") for one in found[:8]
        ),
        advice="Another job that is at work was given the same GPUs: look at how GPUs are handed out." if at_work
        else f"If {'they are' if several else 'it is'} left over from an earlier run, end "
        f"{'them' if several else 'it'}.",
    )  # fmt: skip


def _left_on(names: Sequence[str], others: Sequence[Rank]) -> Finding:
    """Processes of another run on one node, or on many at once."""
    holds = sorted({f"{other.node}:{index}" for other in others for index in other.gpus})
    pids = [str(other.process.pid) for other in others] if len(names) == 1 else []
    where = nodes_text(names)
    return Finding(
        "zombie_process", "warning", 0.8 if holds else 0.65,
        f"{count(len(others), 'process', 'processes')} of another run still on {where}"
        + (f": pid {listed(pids)}" if pids else "") + (f", on GPU {listed(holds)}" if holds else ""),
        nodes=tuple(names), gpus=tuple(holds), evidence=tuple(map(_identity, others[:4])),
        advice="If that run is over, end them" + (f": kill {' '.join(pids[:8])}" if pids else ""),
        next=(next_step("K", "repair", "orphans", *(names if " " in where else (where,))),),
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
    own = {rank.process.pid for rank in living_on(job, node.name)}
    own |= {helper.pid for rank in living_on(job, node.name) for helper in rank.helpers}
    own |= job.once(_just_ended).get(node.name, set())
    return own if any(process.pid in own for gpu in node.gpus for process in gpu.processes) else set()


def _just_ended(job: Job) -> Mapping[str, Set[int]]:
    """Pids of ranks that the driver may still list, by node."""
    found: dict[str, set[int]] = defaultdict(set)
    for rank in job.ranks:
        if rank.gone_at is not None and job.now - rank.gone_at < RELEASED_S:
            found[rank.node].add(rank.process.pid)
    return found


def _strangers(gpu: Gpu, own: Set[int]) -> list[GpuProcess]:
    """Processes of real size on this GPU that are not ``own``; none where nothing is known of those."""
    return [p for p in gpu.processes if own and p.pid not in own and (p.memory or 0) >= MEMORY_IDLE_BYTES]


def _given(rank: Rank) -> Evidence:
    visible = rank.process.env.get("CUDA_VISIBLE_DEVICES", "(not set)")
    on = listed([str(index) for index in rank.gpus]) or "none"
    text = f"LOCAL_RANK={rank.process.local_rank}, CUDA_VISIBLE_DEVICES={visible}, on GPU {on}"
    return Evidence(f"{ranks_on([rank.rank], [rank.node])}, pid {rank.process.pid}", None, text)


def _identity(rank: Rank) -> Evidence:
    process = rank.process
    text = f"RANK={rank.rank}, run {process.run_id or 'unnamed'}, user {process.user}: {process.command}"
    return Evidence(f"/proc/{process.pid}/environ on {rank.node}", process.started, text)
