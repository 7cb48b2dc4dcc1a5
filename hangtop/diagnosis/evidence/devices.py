"""From GPUs and what messages name them by to nodes and ranks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from collectors.samples.gpus import GpuSample, bus_key
from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import number_of, text_of
from hangtop.diagnosis.evidence.events import hosts_in
from hangtop.diagnosis.job import Gpu, Job, Node, Rank

_INDEX = attrgetter("index")


def gpu_name(node: Node, gpu: Gpu) -> str:
    """``node4:3``."""
    return f"{node.name}:{gpu.index}"


class GpuLook(NamedTuple):
    """One GPU and its newest look."""

    node: Node
    gpu: Gpu
    at: float
    sample: GpuSample


def all_gpus(job: Job) -> Iterator[tuple[Node, Gpu]]:
    """Every GPU with its node, in order."""
    for name in sorted(job.nodes):
        node = job.nodes[name]
        for gpu in sorted(node.gpus, key=_INDEX):
            yield node, gpu


def newest(job: Job) -> Sequence[GpuLook]:
    """Newest look at every GPU that has one, in order."""
    return job.once(_newest)


def _newest(job: Job) -> list[GpuLook]:
    return [GpuLook(node, gpu, *gpu.looks[-1]) for node, gpu in all_gpus(job) if gpu.looks]


def living_on(job: Job, node: str) -> Sequence[Rank]:
    """Ranks whose process is on this node, and alive."""
    return job.once(_living).get(node, ())


def _living(job: Job) -> Mapping[str, Sequence[Rank]]:
    found: dict[str, list[Rank]] = defaultdict(list)
    for rank in job.ranks:
        if rank.gone_at is None:
            found[rank.node].append(rank)
    return found


def ranks_on_gpu(job: Job, node: Node, index: int | None) -> tuple[int, ...]:
    """Ranks whose process is on this GPU, or that were given it by their local rank; empty when it is not known.

    A lost GPU is in no list of processes any more, so a rank without any GPU counts by LOCAL_RANK.
    """
    if index is None:
        return ()
    ranks = job.ranks_of(node.name)
    on_it = {rank.rank for rank in ranks if index in rank.gpus}
    if not on_it:
        on_it = {
            rank.rank
            for rank in ranks
            if not rank.gpus and rank.process.local_rank == index and "CUDA_VISIBLE_DEVICES" not in rank.process.env
        }
    return tuple(sorted(on_it))


def ranks_on_node(job: Job, name: str) -> tuple[int, ...]:
    """Ranks whose process was last seen on this node."""
    return tuple(sorted(rank.rank for rank in job.ranks_of(name)))


def gpu_at(node: Node, bus_id: str) -> int | None:
    """Index of the GPU at this PCI address; None when the node has told of none there."""
    key = bus_key(bus_id)
    return next((gpu.index for gpu in node.gpus if gpu.facts and key and bus_key(gpu.facts.bus_id) == key), None)


NAMELESS = "node"
"""The node of messages that name none."""
_GPU_NUMBER = re.compile(r"\bGPU[ #]?(\d{1,2})\b(?!:|\.\d| (?:GPUs?|[GM]i?B)\b)")
_BUS = re.compile(r"\b([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.\d)?\b")


def gpus_in(job: Job, events: Iterable[LogEvent]) -> tuple[str, ...]:
    """``node4:3``, or ``node4:0000:5e:00`` where nothing tells which GPU that is; of each event the first it names."""
    found: set[str] = set()
    for event in events:
        hosts = hosts_in(job, [event])
        name = hosts[0] if hosts else next(iter(job.nodes), NAMELESS) if len(job.nodes) == 1 else NAMELESS
        index = number_of(event, "gpu") if "gpu" in event.data else number_of(event, "device")
        bus = text_of(event, "bus_id") or next(iter(_BUS.findall(event.text[:1000])), "")
        node = job.nodes.get(name)
        if index is None and bus:
            at = gpu_at(node, bus) if node is not None else None
            found.add(f"{name}:{bus.lower() if at is None else at}")
            continue
        told = _GPU_NUMBER.search(event.text[:1000]) if index is None else None
        if told is not None:
            index = int(told.group(1))
        if index is not None and 0 <= index < 256:
            found.add(f"{name}:{index}")
    return tuple(sorted(found))
