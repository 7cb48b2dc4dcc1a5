"""Who is on which GPU: two ranks on one, a full one among half-empty ones, and processes that should be gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from hangtop.diagnosis.evidence.devices import gpu_name, living_on, newest, ranks_on_gpu
from hangtop.diagnosis.finding import Evidence, Finding, next_step
from hangtop.diagnosis.job import Gpu, Job, Node, Rank
from hangtop.diagnosis.node_names import nodes_text
from hangtop.diagnosis.peers import median_without
from hangtop.diagnosis.phrasing import count, listed, ranks_on, ranks_text, size
from hangtop.diagnosis.roster import started_twice
from hangtop.diagnosis.tables.thresholds import MEMORY_IDLE_BYTES, MEMORY_IMBALANCE_SHARE
from hangtop.diagnosis.yielding import paced

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
    for node, gpu, only_here in _shared(job):
        if gpu.facts and gpu.facts.mig.lower() == "enabled":
            continue
        numbers = tuple(sorted(rank.rank for rank in only_here))
        told.add(frozenset(numbers))
        idle = [g.index for g in node.gpus if not g.processes and _used(g) < MEMORY_IDLE_BYTES]
        free = f", while GPU {listed([str(index) for index in idle])} is idle" if idle else ""
        yield Finding(
            "gpu_assignment_conflict", "warning", 0.92,
            f"{ranks_text(numbers)} share GPU {gpu.index} on {node.name}{free}",
            ranks=numbers, nodes=(node.name,), gpus=(gpu_name(node, gpu),),
            evidence=tuple(_given(rank) for rank in only_here[:4]),
            advice="Call torch.cuda.set_device(LOCAL_RANK) before anything else touches CUDA, and leave "
            "CUDA_VISIBLE_DEVICES alone under torchrun.",
        )  # fmt: skip
    yield from _conflicts_by_settings(job, told)


def _shared(job: Job) -> Iterator[tuple[Node, Gpu, list[Rank]]]:
    """GPUs that are the only one of two ranks or more."""
    for name in sorted(job.nodes):
        only: dict[tuple[int, ...], list[Rank]] = defaultdict(list)
        for rank in living_on(job, name):
            if rank.rank >= 0 or rank.process.master_port is not None:  # others may be notebooks of one user
                only[rank.gpus].append(rank)
        for gpu in sorted(job.nodes[name].gpus, key=lambda gpu: gpu.index):
            if len(only.get((gpu.index,), ())) > 1:
                yield job.nodes[name], gpu, only[gpu.index,]


def _conflicts_by_settings(job: Job, told: set[frozenset[int]]) -> Iterator[Finding]:
    """LOCAL_RANK n counts within CUDA_VISIBLE_DEVICES: a list that is shorter leaves that rank without a GPU."""
    for name in sorted(job.nodes):
        short: list[Rank] = []
        for rank in living_on(job, name):
            visible = rank.process.env.get("CUDA_VISIBLE_DEVICES")
            local = rank.process.local_rank
            if visible is None or local is None or rank.process.launcher != "torchrun" or rank.gpus:
                continue
            devices = [word for word in visible.split(",") if word.strip()]
            if devices and len(devices) <= local and len(living_on(job, name)) > len(devices) > 1:
                short.append(rank)
        numbers = tuple(sorted(rank.rank for rank in short))
        if numbers and frozenset(numbers) not in told:
            yield Finding(
                "gpu_assignment_conflict", "warning", 0.7,
                f"{ranks_text(numbers)} on {name} {'has' if len(numbers) == 1 else 'have'} a LOCAL_RANK beyond the "
                "GPUs of CUDA_VISIBLE_DEVICES",
                ranks=numbers, nodes=(name,), evidence=tuple(_given(rank) for rank in short[:4]),
                advice="Under torchrun every rank must see as many GPUs as there are ranks on the node.",
            )  # fmt: skip


def gpu_memory_imbalance(job: Job) -> Iterator[Finding]:
    """gpu_memory_imbalance: one GPU of the job holds far more than the rest, and who uses it.

    Needs used and total memory of the GPUs that the job's ranks are on.
    """
    held = [
        (row, row.sample.memory_used or 0)
        for row in newest(job)
        if row.gpu.facts and row.gpu.facts.memory_total and ranks_on_gpu(job, row.node, row.gpu.index)
    ]
    if len(held) < 3:
        return
    amounts = sorted(amount for _, amount in paced(held))
    middle = amounts[len(amounts) // 2 - 1]  # no GPU finds less than this in the middle of the others
    for (node, gpu, at, _), amount in paced(held):
        total = gpu.facts.memory_total if gpu.facts else None
        if not total or amount - middle < MEMORY_IMBALANCE_SHARE * total:
            continue
        rest = median_without(amounts, amount)
        if amount - rest < MEMORY_IMBALANCE_SHARE * total:
            continue
        users = [f"pid {p.pid} {p.name or ''} {size(p.memory or 0)}".replace("  ", " ") for p in gpu.processes]
        strangers = _strangers(gpu, _own_pids(job, node))
        crowded = len(gpu.processes) > 1
        why = f"; {count(len(gpu.processes), 'process', 'processes')} on it" if crowded else ""
        yield Finding(
            "gpu_memory_imbalance", "warning" if crowded else "info", 0.8 if crowded else 0.5,
            f"GPU {gpu.index} on {node.name} holds {size(amount)}, the others of the job {size(rest)}{why}",
            ranks=ranks_on_gpu(job, node, gpu.index), nodes=(node.name,), gpus=(gpu_name(node, gpu),),
            evidence=(Evidence(f"nvidia-smi on {node.name}", at, listed(users, 6) or "no users listed"),),
            advice="End the processes that are not of this job." if strangers else
            "Every rank that loads a checkpoint to cuda:0, or that sets its device too late, leaves memory on GPU 0.",
        )  # fmt: skip


def zombie_process(job: Job) -> Iterator[Finding]:
    """zombie_process: processes of an earlier run that are still alive, hold GPU memory or the job's port.

    Needs living processes whose environment belongs to another run and that nobody who started them waits for, or GPU
    processes that are no process of this job on a node where the job's own processes can be told by their pid. Another
    job that is at work on the same node is none of this job's business, and a second process of one of its ranks no
    other run's.
    """
    by_node: dict[str, list[Rank]] = defaultdict(list)
    seconds = {(other.node, other.process.pid) for _, other in started_twice(job)} if job.others else set()
    for other in job.others:
        if (other.node, other.process.pid) not in seconds and left_over(other, job.others):
            by_node[other.node].append(other)
    alive = {(other.node, other.process.pid) for other in job.others} - {
        (other.node, other.process.pid) for others in by_node.values() for other in others
    }
    apart = [[name] for name in sorted(by_node)] if len(by_node) <= APART else [sorted(by_node)]
    for names in apart if by_node else ():
        yield _left_on(names, [other for name in names for other in by_node[name]])
    found: list[_AlsoUsed] = []
    for node, gpu, strangers in _all_strangers(job):
        mine = ranks_on_gpu(job, node, gpu.index)
        # bystanders live and say what they are: notebooks and servers, nobody's leftovers
        named = (*by_node.get(node.name, ()), *(one for one in job.bystanders if one.node == node.name))
        known = {other.process.pid for other in named}
        if mine and (unknown := [one for one in strangers if one[0] not in known]):
            found.append(_AlsoUsed(node, gpu, mine, unknown, all((node.name, pid) in alive for pid, _, _ in unknown)))
    several = len(found) > APART
    for together in _by_node(found) if several else [[one] for one in found]:
        yield _also_used(together)


class _AlsoUsed(NamedTuple):
    """A GPU of the job that processes use which are not of it."""

    node: Node
    gpu: Gpu
    ranks: tuple[int, ...]
    strangers: Sequence[tuple[int, int, str]]
    at_work: bool
    """All of them are of another job that is alive."""

    @property
    def told(self) -> str:
        """Who they are."""
        return listed([f"pid {pid} ({what or 'unknown'}, {size(amount)})" for pid, amount, what in self.strangers])


def _by_node(found: Sequence[_AlsoUsed]) -> list[list[_AlsoUsed]]:
    """A finding a node; one for all where there are many nodes. Who is at work is told apart from what is left over."""
    apart = len({one.node.name for one in found}) <= APART
    together: dict[tuple[str, bool], list[_AlsoUsed]] = defaultdict(list)
    for one in found:
        together[one.node.name if apart else "", one.at_work].append(one)
    return list(together.values())


def _also_used(found: Sequence[_AlsoUsed]) -> Finding:
    """Processes that are not of the job on one GPU, or on several at once."""
    nodes = sorted({one.node.name for one in found})
    gpus = listed([str(one.gpu.index) for one in found], 8)
    which = f"GPU {gpus}" if len(found) == 1 else f"GPUs {gpus}" if len(nodes) == 1 else count(len(found), "GPU")
    several = len({(one.node.name, pid) for one in found for pid, _, _ in one.strangers}) > 1
    who = "processes that are not of this job" if several else "a process that is not of this job"
    more = " and so on" if several and len(found) > 1 else ""
    told = "" if len(nodes) > 1 else f": {found[0].told}{more}"
    return Finding(
        "zombie_process", "warning", 0.6,
        f"{which} on {nodes_text(nodes)} {'is' if len(found) == 1 else 'are'} also used by {who}{told}",
        ranks=tuple(sorted({rank for one in found for rank in one.ranks})), nodes=tuple(nodes),
        gpus=tuple(gpu_name(one.node, one.gpu) for one in found),
        evidence=tuple(
            Evidence(f"nvidia-smi on {one.node.name}", None, f"GPU {one.gpu.index}: {one.told}") for one in found[:8]
        ),
        advice="Another job that is at work was given the same GPUs: look at how GPUs are handed out."
        if all(one.at_work for one in found)
        else "If it is left over from an earlier run, end it."
        if not several
        else "If they are left over from an earlier run, end them.",
    )  # fmt: skip


def _left_on(names: Sequence[str], others: Sequence[Rank]) -> Finding:
    """Processes of another run on one node, or on many at once."""
    holds = sorted({f"{other.node}:{index}" for other in others for index in other.gpus})
    pids = listed([str(other.process.pid) for other in others])
    told = f": pid {pids}" if len(names) == 1 else ""
    kill = f": kill {' '.join(str(o.process.pid) for o in others[:8])}" if len(names) == 1 else ""
    where = nodes_text(names)
    return Finding(
        "zombie_process", "warning", 0.8 if holds else 0.65,
        f"{count(len(others), 'process', 'processes')} of another run still on {where}{told}"
        + (f", on GPU {listed(holds)}" if holds else ""),
        nodes=tuple(names), gpus=tuple(holds), evidence=tuple(_identity(other) for other in others[:4]),
        advice=f"If that run is over, end them{kill}",
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


def _all_strangers(job: Job) -> Iterator[tuple[Node, Gpu, list[tuple[int, int, str]]]]:
    for name in sorted(job.nodes):
        node = job.nodes[name]
        own = _own_pids(job, node)
        for gpu in sorted(node.gpus, key=lambda gpu: gpu.index):
            if strangers := _strangers(gpu, own):
                yield node, gpu, strangers


def _own_pids(job: Job, node: Node) -> set[int]:
    """Ranks and helpers on a node whose pids the driver knows, those included that have just ended.

    Empty where pids cannot be compared.

    Inside a container the driver lists host pids: then none of them matches, and nothing can be said.
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


def _strangers(gpu: Gpu, own: Set[int]) -> list[tuple[int, int, str]]:
    """Processes of real size on this GPU that are not ``own``; none where nothing is known of those."""
    if not own:
        return []
    found = [(p.pid, p.memory or 0, p.name) for p in gpu.processes if p.pid not in own]
    return [item for item in found if item[1] >= MEMORY_IDLE_BYTES]


def _given(rank: Rank) -> Evidence:
    visible = rank.process.env.get("CUDA_VISIBLE_DEVICES", "(not set)")
    on = listed([str(index) for index in rank.gpus]) or "none"
    text = f"LOCAL_RANK={rank.process.local_rank}, CUDA_VISIBLE_DEVICES={visible}, on GPU {on}"
    return Evidence(f"{ranks_on([rank.rank], [rank.node])}, pid {rank.process.pid}", None, text)


def _identity(rank: Rank) -> Evidence:
    process = rank.process
    text = f"RANK={rank.rank}, run {process.run_id or 'unnamed'}, user {process.user}: {process.command}"
    return Evidence(f"/proc/{process.pid}/environ on {rank.node}", process.started, text)
