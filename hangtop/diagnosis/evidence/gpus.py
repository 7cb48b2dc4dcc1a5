"""Which rank holds which GPU, and that GPU's load: computing, spinning in a kernel that waits, or idle.

NCCL's kernels keep a GPU "utilised" while they wait for peers, at low and steady power; a computing kernel draws far
more. So only utilisation and power together tell the loads apart. If one rank's GPU is idle while all others spin, that
rank has not launched the collective that the others wait in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Literal

from collectors.samples.gpus import GpuSample, bus_key
from collectors.samples.ranks import RankProcess
from hangtop.diagnosis.finding import Evidence, Observer
from hangtop.diagnosis.job import Job, once
from hangtop.diagnosis.node import Gpu, Node, Rank
from hangtop.diagnosis.phrasing import count, ranks_text
from hangtop.diagnosis.tables.thresholds import IDLE_UTILIZATION, LATE_SAMPLES, STOOD_STILL_S

SPIN_UTILIZATION = 95
"""Per cent: a waiting NCCL kernel keeps the GPU "utilised" (threads of m4-logs and marin report 100)."""
SPIN_POWER_SHARE = 0.45
"""Ours, from reports: A100 at 85 to 90 W of 400, H100 and GB200 at 240 to 280 W of 700 while they only wait."""
FLAT_POWER_SHARE = 0.08
"""Ours: share of the power limit within which the power of a waiting GPU stays; that of a GPU which computes in steps
varies by tens of per cent."""
SPIN_MEMORY_UTILIZATION = 4
"""Greatest memory utilisation, per cent, of a GPU whose kernel only waits: 0 in 40 waits of NCCL 2.28 on an H200.
Memory-bound work, such as a model that decodes token by token, draws little power, too."""
LAST = 8
"""Most samples that are compared."""
Load = Literal["computing", "spinning", "idle", "mixed", "unknown"]
"""``spinning``: full at low, steady power in every sample; ``idle``: no utilisation in every sample; ``mixed``: samples
differ; ``unknown``: fewer than two samples, no GPU known for this rank, or no figure of its power."""


# --- who holds which ---------------------------------------------------------------------------------------------


def given_gpu(process: RankProcess) -> int | None:
    """Index of the GPU that a rank's environment assigns; None if it assigns none, or torch has no CUDA."""
    return None if process.versions.get("torch", "").endswith("+cpu") else _by_settings(process)


def _by_settings(process: RankProcess) -> int | None:
    local, visible = process.local_rank, process.env.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return local
    listed = [word.strip() for word in visible.split(",") if word.strip()]
    chosen = listed[0] if len(listed) == 1 else listed[local] if local is not None and local < len(listed) else ""
    return int(chosen) if chosen.isdecimal() and len(chosen) < 4 else None


def gpus_of(job: Job, rank: Rank) -> tuple[Gpu, ...]:
    """GPUs that a rank holds: those that its processes are on.

    If the driver lists no process at all, as in a container, the GPU that the environment assigns. A CPU job next to
    another job's busy GPUs holds none.
    """
    node = job.nodes.get(rank.node)
    if node is None:
        return ()
    listed = rank.gpus or any(gpu.processes for gpu in node.gpus.values())
    wanted = rank.gpus if listed else (given_gpu(rank.process),)
    return tuple(gpu for gpu in node.gpus.values() if gpu.index in wanted)


def ranks_on_gpu(job: Job, node: Node, index: int | None) -> tuple[int, ...]:
    """Ranks whose process is on this GPU, else the ranks whose environment assigns it; empty if unknown.

    A lost GPU is in no list of processes, so a rank without any GPU counts by its environment.
    """
    ranks = job.ranks_of(node.name) if index is not None else ()
    on_it = {rank.rank for rank in ranks if index in rank.gpus}
    assigned = {rank.rank for rank in ranks if not rank.gpus and _by_settings(rank.process) == index}
    return tuple(sorted(on_it or assigned))


def all_gpus(job: Job) -> Iterator[tuple[Node, Gpu]]:
    """Every GPU with its node, in order."""
    for _, node in sorted(job.nodes.items()):
        yield from ((node, gpu) for gpu in node.gpus.values())


def seen_gpus(job: Job) -> Iterator[tuple[Node, Gpu]]:
    """Every GPU with at least one sample, with its node, in order."""
    return ((node, gpu) for node, gpu in all_gpus(job) if gpu.samples)


def gpu_at(node: Node, bus_id: str) -> int | None:
    """Index of the GPU at this PCI address; None if the node has listed none there."""
    key = bus_key(bus_id)
    return next(
        (gpu.index for gpu in node.gpus.values() if gpu.facts and key and bus_key(gpu.facts.bus_id) == key), None
    )


# --- what they do ------------------------------------------------------------------------------------------------


@once
def gpu_loads(job: Job) -> Mapping[int, Load]:
    """Load of the GPUs of each living rank, by rank.

    A GPU that still computes in the second half of a standstill (earlier launches are done by then) counts as
    computing: its rank evaluates, or searches, in batches while the others wait for it.
    """
    still = job.stood_still or 0.0
    since = job.now - still / 2 if job.live and still >= STOOD_STILL_S else float("inf")
    by_rank: dict[int, Load] = {}
    for owner in job.ranks:
        if owner.gone_at is None and (gpus := gpus_of(job, owner)):
            loads = {_load(gpu, since) for gpu in gpus}
            by_rank[owner.rank] = loads.pop() if len(loads) == 1 else "computing" if "computing" in loads else "mixed"
    return by_rank


def load_proof(job: Job, owners: Sequence[Rank]) -> Evidence:
    """The GPUs of these ranks as evidence: which compute, spin or idle, and the median power."""
    loads = gpu_loads(job)
    by_load: dict[Load, list[int]] = defaultdict(list)
    for owner in owners:
        by_load[loads.get(owner.rank, "unknown")].append(owner.rank)
    samples = [gpu.samples[-1] for owner in owners for gpu in gpus_of(job, owner) if gpu.samples]
    watts = [sample.value.power for sample in samples if sample.value.power is not None]
    power_text = f", median {median(watts):.0f} W" if watts else ""
    text = ", ".join(f"{ranks_text(members)} {load}" for load, members in sorted(by_load.items()))
    at = max((sample.at for sample in samples), default=None)
    return Evidence(Observer.GPU, f"nvidia-smi, {count(len(owners), 'GPU')}", at, f"{text}{power_text}")


def load_shares(job: Job, span: float) -> dict[int, Mapping[Load, float]]:
    """Share of the last ``span`` seconds that each living rank's GPU spent under each load, by rank.

    Only for ranks with exactly one GPU whose samples cover the span: a sample holds until the next one.
    """
    by_rank: dict[int, Mapping[Load, float]] = {}
    for owner in job.ranks:
        gpus = gpus_of(job, owner) if owner.gone_at is None else ()
        samples = list(gpus[0].samples) if len(gpus) == 1 else []
        since = samples[-1].at - span if samples else 0.0
        if not samples or samples[0].at > since:
            continue
        lasted: dict[Load, float] = defaultdict(float)
        for sample, following in pairwise(samples):
            lasted[load_of(gpus[0], sample.value)] += max(0.0, following.at - max(sample.at, since))
        if not lasted["unknown"]:
            by_rank[owner.rank] = {"computing": lasted["computing"] / span, "spinning": lasted["spinning"] / span}
    return by_rank


def draws_work_power(job: Job, rank: Rank) -> bool:
    """Whether the median power of one of the rank's GPUs is above that of a GPU whose kernels only wait."""
    return any(
        limit and watts and median(watts) > SPIN_POWER_SHARE * limit
        for limit, watts in (_power(gpu) for gpu in gpus_of(job, rank))
    )


def _load(gpu: Gpu, since: float) -> Load:
    """Load of a GPU by all its last samples; ``computing`` if they differ and a sample from ``since`` on shows it."""
    samples = gpu.samples[-LAST:]
    loads = {load_of(gpu, sample.value) for sample in samples}
    if len(samples) < LATE_SAMPLES or (len(loads) > 1 and "unknown" in loads):
        return "unknown"
    limit, watts = _power(gpu)
    steady = not limit or not watts or max(watts) - min(watts) <= FLAT_POWER_SHARE * limit
    if len(loads) == 1 and (steady or loads != {"spinning"}):
        return loads.pop()
    computed = any(sample.at >= since and load_of(gpu, sample.value) == "computing" for sample in samples)
    return "computing" if computed else "mixed"


def _power(gpu: Gpu) -> tuple[float | None, list[float]]:
    """The power limit, and the power of the last samples, watts."""
    limit = gpu.facts.power_limit if gpu.facts else None
    return limit, [sample.value.power for sample in gpu.samples[-LAST:] if sample.value.power is not None]


def load_of(gpu: Gpu, sample: GpuSample) -> Load:
    """What one sample of a GPU says by itself."""
    if sample.utilization is None:
        return "unknown"
    if sample.utilization <= IDLE_UTILIZATION:
        return "idle"
    if sample.utilization < SPIN_UTILIZATION or (sample.memory_utilization or 0) > SPIN_MEMORY_UTILIZATION:
        return "computing"
    limit = gpu.facts.power_limit if gpu.facts else None
    if sample.power is None or not limit:
        return "unknown"
    return "spinning" if sample.power <= SPIN_POWER_SHARE * limit else "computing"
