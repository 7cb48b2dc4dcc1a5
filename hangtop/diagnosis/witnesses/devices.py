"""From devices and kernel lines to nodes, GPUs and ranks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat
from operator import attrgetter
from typing import NamedTuple

from collectors.samples.gpus import GpuSample
from collectors.samples.logs import LogEvent
from hangtop.diagnosis.finding import Evidence
from hangtop.diagnosis.job import Gpu, Job, Node, Rank
from hangtop.diagnosis.witnesses.event_fields import number_of, when
from hangtop.diagnosis.yielding import Paced, give_way, paced

BEFORE_START_S = 60.0
"""A kernel line this long before the first process of the job may still be the reason why it was started anew."""
EVIDENCE_CHARS = 400
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
        give_way()
        node = job.nodes[name]
        for gpu in sorted(node.gpus, key=_INDEX):
            yield node, gpu


def newest(job: Job) -> Sequence[GpuLook]:
    """Newest look at every GPU that has one, in order."""
    return job.once(_newest)


def _newest(job: Job) -> Paced[GpuLook]:
    return Paced(GpuLook(node, gpu, *gpu.looks[-1]) for node, gpu in all_gpus(job) if gpu.looks)


def living_on(job: Job, node: str) -> Sequence[Rank]:
    """Ranks whose process is on this node, and alive."""
    give_way()
    return job.once(_living).get(node, ())


def _living(job: Job) -> Mapping[str, Sequence[Rank]]:
    found: dict[str, list[Rank]] = defaultdict(list)
    for rank in paced(job.ranks):
        if rank.gone_at is None:
            found[rank.node].append(rank)
    return found


def ranks_on_gpu(job: Job, node: Node, index: int | None) -> tuple[int, ...]:
    """Ranks whose process is on this GPU, or that were given it by their local rank; empty when it is not known.

    A lost GPU is in no list of processes any more, so a rank without any GPU counts by LOCAL_RANK.
    """
    if index is None:
        return ()
    give_way()
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


def bus_key(bus_id: str) -> tuple[int, ...]:
    """Make PCI addresses comparable: ``0000:5F:00.0``, ``00000000:5f:00.0`` and ``0000:5f:00`` are one device."""
    parts = re.findall(r"[0-9a-f]+", bus_id.lower().removeprefix("pci:"))[:3]
    return tuple(int(part, 16) for part in parts)


def gpu_at(node: Node, bus_id: str) -> int | None:
    """Index of the GPU at this PCI address; None when the node has told of none there."""
    key = bus_key(bus_id)
    return next((gpu.index for gpu in node.gpus if gpu.facts and key and bus_key(gpu.facts.bus_id) == key), None)


def events_on(job: Job, node: Node, kind: str) -> Iterator[LogEvent]:
    """Kernel events of one kind from one node; live, those from long before the job's processes are left out."""
    if not job.events_of(kind):
        return
    started = min((rank.process.started for rank in job.ranks_of(node.name)), default=None)
    hostname = node.hello.hostname if node.hello else ""
    by_host = job.once(_by_host)
    # those that came from the node itself, and of files those whose lines name it
    told = [by_host.get(key, ()) for key in {(kind, node.name, ""), (kind, "", node.name), (kind, "", hostname)}]
    for _, event in sorted(pair for pairs in told for pair in pairs):
        at = when(event)
        if job.live and started is not None and at is not None and at < started - BEFORE_START_S:
            continue
        yield event


def _by_host(job: Job) -> Mapping[tuple[str, str, str], Sequence[tuple[int, LogEvent]]]:
    """Events with their places, by kind, the node that they came from, and the host that lines of a folder name."""
    found: dict[tuple[str, str, str], list[tuple[int, LogEvent]]] = defaultdict(list)
    homes = chain(job.event_nodes, repeat(""))
    for place, (home, event) in enumerate(zip(homes, job.events, strict=False)):
        found[event.kind, home, "" if home else event.host].append((place, event))
    return found


def event_line(event: LogEvent) -> Evidence:
    """Put an event as evidence: file and line, time, verbatim text."""
    source = f"{event.source}:{event.line}" if event.line else event.source
    text = event.text
    if len(text) > EVIDENCE_CHARS:  # a traceback says most at its end
        text = f"{text[: EVIDENCE_CHARS // 4]} … {text[-3 * EVIDENCE_CHARS // 4 :]}"
    return Evidence(source, when(event), text)


def pid_of(event: LogEvent) -> int | None:
    """Return the process that an event names, else the one that owns its source."""
    return number_of(event, "pid") or event.pid
