"""What the GPU of each rank does: it computes, it is full of a kernel that only waits, or it has nothing to do.

NCCL's kernels keep a GPU "utilised" while they wait for peers, at little and steady power; a kernel that computes
draws far more. So utilisation alone says nothing, and both together tell the three apart. One rank whose GPU is empty
while all others are full and idle in power is the one that has not launched what the others wait in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Literal, NamedTuple

from collectors.samples.gpus import GpuSample
from collectors.samples.ranks import RankProcess
from hangtop.diagnosis.finding import Evidence, Observer
from hangtop.diagnosis.job import Gpu, Job, Look, Rank
from hangtop.diagnosis.phrasing import count, ranks_text
from hangtop.diagnosis.tables.thresholds import (
    FLAT_POWER_SHARE,
    IDLE_UTILIZATION,
    LATE_LOOKS,
    SPIN_MEMORY_UTILIZATION,
    SPIN_POWER_SHARE,
    SPIN_UTILIZATION,
    STOOD_STILL_S,
)

FEW = 256
"""Ranks of which it is reckoned for how long each GPU did what."""
LAST = 8
"""Looks that are compared, at the most."""
Load = Literal["computing", "spinning", "idle", "mixed", "unknown"]
"""``spinning``: full at little, steady power in every look; ``idle``: empty in every look; ``mixed``: now this, now
that; ``unknown``: fewer than two looks, no GPU known for this rank, or no figure of its power."""


class LoadShares(NamedTuple):
    """What a GPU did, as parts of the time."""

    computing: float
    spinning: float


def gpu_loads(job: Job) -> Mapping[int, Load]:
    """What the GPUs of each living rank do, by rank; worked out once for a picture.

    A GPU that still computes now and then, though the job stands still, is one that computes: its rank evaluates, or
    searches, in batches, while the others wait for it. What was launched before is done by the middle of that time.
    """
    return job.once(_loads)


def gpus_of(job: Job, rank: Rank) -> tuple[Gpu, ...]:
    """GPUs that a rank holds: those that its process is on.

    Where the driver tells of no process at all, as in a container, the one that its settings and LOCAL_RANK give it. A
    job of CPUs beside the busy GPUs of another one holds none.
    """
    node = job.nodes.get(rank.node)
    if node is None or not node.gpus:
        return ()
    wanted: Collection[int] = rank.gpus
    if not wanted and not any(gpu.processes for gpu in node.gpus):
        index = given_gpu(rank.process)
        wanted = () if index is None else (index,)
    return tuple(gpu for gpu in node.gpus if gpu.index in wanted)


def load_proof(job: Job, owners: Sequence[Rank]) -> Evidence:
    """The GPUs of these ranks as evidence: who computes, spins or idles, and the median power."""
    loads = gpu_loads(job)
    by_load: dict[Load, list[int]] = defaultdict(list)
    watts: list[float] = []
    newest = 0.0
    for owner in owners:
        by_load[loads.get(owner.rank, "unknown")].append(owner.rank)
        for gpu in gpus_of(job, owner):
            if gpu.looks:
                newest = max(newest, gpu.looks[-1].at)
                power = gpu.looks[-1].value.power
                watts.extend(() if power is None else (power,))
    power_told = f", median {median(watts):.0f} W" if watts else ""
    text = ", ".join(f"{ranks_text(members)} {load}" for load, members in sorted(by_load.items()))
    return Evidence(Observer.GPU, f"nvidia-smi, {count(len(owners), 'GPU')}", newest or None, f"{text}{power_told}")


def _loads(job: Job) -> Mapping[int, Load]:
    owners = [rank for rank in job.ranks if rank.gone_at is None]
    still = job.stood_still or 0.0
    since = job.now - still / 2 if job.live and still >= STOOD_STILL_S else float("inf")
    found: dict[int, Load] = {}
    for owner in owners:
        if gpus := gpus_of(job, owner):
            load = _together([_load(gpu) for gpu in gpus])
            found[owner.rank] = "computing" if load == "mixed" and _computed(gpus, since) else load
    return found


def _computed(gpus: Sequence[Gpu], since: float) -> bool:
    """Whether a look at these GPUs since then met one that computes."""
    looks = ((gpu, look) for gpu in gpus for look in list(gpu.looks)[-LAST:])
    return any(look.at >= since and _of_look(gpu, look) == "computing" for gpu, look in looks)


def load_shares(job: Job, span: float) -> dict[int, LoadShares]:
    """For which part of the last ``span`` seconds the GPU of each living rank did what, by rank; none of many ranks.

    Only ranks with one GPU of which so many seconds are known: a figure holds until the next one comes.
    """
    owners = [rank for rank in job.ranks if rank.gone_at is None]
    found: dict[int, LoadShares] = {}
    for owner in owners if len(owners) <= FEW else ():
        gpus = gpus_of(job, owner)
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
    for gpu in gpus_of(job, rank):
        limit = gpu.facts.power_limit if gpu.facts else None
        watts = [look.value.power for look in gpu.looks[-LAST:] if look.value.power is not None]
        if limit and watts and median(watts) > SPIN_POWER_SHARE * limit:
            return True
    return False


def given_gpu(process: RankProcess) -> int | None:
    """Index of the GPU that a rank was given by its settings; None where they do not tell, or its torch has no CUDA."""
    local, visible = process.local_rank, process.env.get("CUDA_VISIBLE_DEVICES")
    if process.versions.get("torch", "").endswith("+cpu"):
        return None
    if visible is None:
        return local
    listed = [word.strip() for word in visible.split(",") if word.strip()]
    own = listed[0] if len(listed) == 1 else listed[local] if local is not None and local < len(listed) else ""
    return int(own) if own.isdecimal() and len(own) < 4 else None


def _together(loads: Sequence[Load]) -> Load:
    """Of a rank with several GPUs: it computes if one of them does."""
    if len(set(loads)) == 1:
        return loads[0]
    return "computing" if "computing" in loads else "mixed"


def _load(gpu: Gpu) -> Load:
    looks = gpu.looks[-LAST:]
    if len(looks) < LATE_LOOKS:
        return "unknown"
    loads = {_of_look(gpu, look) for look in looks}
    if len(loads) > 1:
        return "unknown" if "unknown" in loads else "mixed"
    load = loads.pop()
    return "mixed" if load == "spinning" and not _flat(gpu, looks) else load


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


def _flat(gpu: Gpu, looks: Sequence[Look[GpuSample]]) -> bool:
    limit = gpu.facts.power_limit if gpu.facts else None
    watts = [look.value.power for look in looks if look.value.power is not None]
    return not limit or not watts or max(watts) - min(watts) <= FLAT_POWER_SHARE * limit
