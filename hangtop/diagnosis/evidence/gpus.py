"""Which rank holds which GPU, and what that GPU does: it computes, it only waits in a kernel, or it is empty.

NCCL's kernels keep a GPU "utilised" while they wait for peers, at little and steady power; a kernel that computes
draws far more. So utilisation alone says nothing, and both together tell the three apart. One rank whose GPU is empty
while all others are full and idle in power is the one that has not launched what the others wait in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Literal, NamedTuple

from collectors.samples.gpus import GpuSample, bus_key
from collectors.samples.ranks import RankProcess
from hangtop.diagnosis.finding import Evidence, Observer
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.looks import Look
from hangtop.diagnosis.node import Gpu, Node, Rank
from hangtop.diagnosis.phrasing import count, ranks_text
from hangtop.diagnosis.tables.thresholds import IDLE_UTILIZATION, LATE_LOOKS, STOOD_STILL_S

SPIN_UTILIZATION = 95
"""Per cent: a NCCL kernel that waits keeps the GPU "utilised" (threads of m4-logs and marin report 100)."""
SPIN_POWER_SHARE = 0.45
"""Ours, from reports: A100 85 to 90 W of 400, H100 and GB200 240 to 280 W of 700 while they only wait."""
FLAT_POWER_SHARE = 0.08
"""Ours: of the power limit, by which the power of a GPU may differ among looks while it only waits; a GPU that computes
in steps moves by tens of per cent."""
SPIN_MEMORY_UTILIZATION = 4
"""Per cent of the time in which the GPU's memory is read or written, at the most, while a kernel only waits: 0 in 40
waits of NCCL 2.28 on an H200. What is bound by memory, as a model that writes word by word, draws little power, too."""
LAST = 8
"""Looks that are compared, at the most."""
Load = Literal["computing", "spinning", "idle", "mixed", "unknown"]
"""``spinning``: full at little, steady power in every look; ``idle``: empty in every look; ``mixed``: now this, now
that; ``unknown``: fewer than two looks, no GPU known for this rank, or no figure of its power."""


# --- who holds which ---------------------------------------------------------------------------------------------


def given_gpu(process: RankProcess) -> int | None:
    """Index of the GPU that a rank was given by its settings; None where they do not tell, or its torch has no CUDA."""
    return None if process.versions.get("torch", "").endswith("+cpu") else _by_settings(process)


def _by_settings(process: RankProcess) -> int | None:
    local, visible = process.local_rank, process.env.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return local
    listed = [word.strip() for word in visible.split(",") if word.strip()]
    own = listed[0] if len(listed) == 1 else listed[local] if local is not None and local < len(listed) else ""
    return int(own) if own.isdecimal() and len(own) < 4 else None


def gpus_of(job: Job, rank: Rank) -> tuple[Gpu, ...]:
    """GPUs that a rank holds: those that its process is on.

    Where the driver tells of no process at all, as in a container, the one that its settings give it. A job of CPUs
    beside the busy GPUs of another one holds none.
    """
    node = job.nodes.get(rank.node)
    if node is None:
        return ()
    told = rank.gpus or any(gpu.processes for gpu in node.gpus.values())
    wanted = rank.gpus if told else (given_gpu(rank.process),)
    return tuple(gpu for gpu in node.gpus.values() if gpu.index in wanted)


def ranks_on_gpu(job: Job, node: Node, index: int | None) -> tuple[int, ...]:
    """Ranks whose process is on this GPU, else those that it was given to; empty when it is not known.

    A lost GPU is in no list of processes any more, so a rank without any GPU counts by its settings.
    """
    ranks = job.ranks_of(node.name) if index is not None else ()
    on_it = {rank.rank for rank in ranks if index in rank.gpus}
    return tuple(sorted(on_it or {one.rank for one in ranks if not one.gpus and _by_settings(one.process) == index}))


def all_gpus(job: Job) -> Iterator[tuple[Node, Gpu]]:
    """Every GPU with its node, in order."""
    for _, node in sorted(job.nodes.items()):
        yield from ((node, gpu) for gpu in node.gpus.values())


def seen_gpus(job: Job) -> Iterator[tuple[Node, Gpu]]:
    """Every GPU that was looked at, with its node, in order."""
    return ((node, gpu) for node, gpu in all_gpus(job) if gpu.looks)


def gpu_at(node: Node, bus_id: str) -> int | None:
    """Index of the GPU at this PCI address; None when the node has told of none there."""
    key = bus_key(bus_id)
    return next(
        (gpu.index for gpu in node.gpus.values() if gpu.facts and key and bus_key(gpu.facts.bus_id) == key), None
    )


# --- what they do ------------------------------------------------------------------------------------------------


def gpu_loads(job: Job) -> Mapping[int, Load]:
    """What the GPUs of each living rank do, by rank; worked out once for a picture.

    A GPU that still computes now and then, though the job stands still, is one that computes: its rank evaluates, or
    searches, in batches, while the others wait for it. What was launched before is done by the middle of that time.
    """
    return job.once(_loads)


def load_proof(job: Job, owners: Sequence[Rank]) -> Evidence:
    """The GPUs of these ranks as evidence: who computes, spins or idles, and the median power."""
    loads = gpu_loads(job)
    by_load: dict[Load, list[int]] = defaultdict(list)
    for owner in owners:
        by_load[loads.get(owner.rank, "unknown")].append(owner.rank)
    looks = [gpu.looks[-1] for owner in owners for gpu in gpus_of(job, owner) if gpu.looks]
    watts = [look.value.power for look in looks if look.value.power is not None]
    power_told = f", median {median(watts):.0f} W" if watts else ""
    text = ", ".join(f"{ranks_text(members)} {load}" for load, members in sorted(by_load.items()))
    at = max((look.at for look in looks), default=None)
    return Evidence(Observer.GPU, f"nvidia-smi, {count(len(owners), 'GPU')}", at, f"{text}{power_told}")


class LoadShares(NamedTuple):
    """What a GPU did, as parts of the time."""

    computing: float
    spinning: float


def load_shares(job: Job, span: float) -> dict[int, LoadShares]:
    """For which part of the last ``span`` seconds the GPU of each living rank did what, by rank.

    Only ranks with one GPU of which so many seconds are known: a figure holds until the next one comes.
    """
    found: dict[int, LoadShares] = {}
    for owner in job.ranks:
        gpus = gpus_of(job, owner) if owner.gone_at is None else ()
        looks = list(gpus[0].looks) if len(gpus) == 1 else []
        since = looks[-1].at - span if looks else 0.0
        if not looks or looks[0].at > since:
            continue
        lasted: dict[Load, float] = defaultdict(float)
        for look, following in pairwise(looks):
            lasted[_of_look(gpus[0], look)] += max(0.0, following.at - max(look.at, since))
        if not lasted["unknown"]:
            found[owner.rank] = LoadShares(lasted["computing"] / span, lasted["spinning"] / span)
    return found


def draws_work_power(job: Job, rank: Rank) -> bool:
    """Whether a GPU of this rank draws more than one whose kernels only wait, in most of its last looks."""
    return any(
        limit and watts and median(watts) > SPIN_POWER_SHARE * limit
        for limit, watts in (_power(gpu) for gpu in gpus_of(job, rank))
    )


def _loads(job: Job) -> Mapping[int, Load]:
    still = job.stood_still or 0.0
    since = job.now - still / 2 if job.live and still >= STOOD_STILL_S else float("inf")
    found: dict[int, Load] = {}
    for owner in job.ranks:
        if owner.gone_at is None and (gpus := gpus_of(job, owner)):
            loads = {_load(gpu, since) for gpu in gpus}
            found[owner.rank] = loads.pop() if len(loads) == 1 else "computing" if "computing" in loads else "mixed"
    return found


def _load(gpu: Gpu, since: float) -> Load:
    """What all last looks at a GPU say together; ``computing`` where one of those since then says so."""
    looks = gpu.looks[-LAST:]
    loads = {_of_look(gpu, look) for look in looks}
    if len(looks) < LATE_LOOKS or (len(loads) > 1 and "unknown" in loads):
        return "unknown"
    limit, watts = _power(gpu)
    steady = not limit or not watts or max(watts) - min(watts) <= FLAT_POWER_SHARE * limit
    if len(loads) == 1 and (steady or loads != {"spinning"}):
        return loads.pop()
    return "computing" if any(look.at >= since and _of_look(gpu, look) == "computing" for look in looks) else "mixed"


def _power(gpu: Gpu) -> tuple[float | None, list[float]]:
    """The limit of its power, and what it drew in its last looks."""
    limit = gpu.facts.power_limit if gpu.facts else None
    return limit, [look.value.power for look in gpu.looks[-LAST:] if look.value.power is not None]


def _of_look(gpu: Gpu, look: Look[GpuSample]) -> Load:
    sample = look.value
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
