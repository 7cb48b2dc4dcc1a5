"""What a session knows at one moment, as entries of a recording: replayed, they show the same as the session did.

What moves has no past there. Times in a recording are the node's: those of the state are this machine's, and are
shifted back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from collectors.fleet.sink import LinkChange
from collectors.samples.fabric import PortCounters
from collectors.samples.gpus import GpuProcesses
from collectors.samples.ranks import RankGone
from hangtop.session.apply.clock import TIMES, shift_of, shifted
from hangtop.session.entries import Payload
from hangtop.session.state.job_state import GpuState, JobState, NodeState, PortState, RankState


def snapshot_of(state: JobState, name: str, at: float) -> list[Payload]:
    """All that is known of a node and of its ranks' collectives."""
    node = state.nodes[name]
    clock = at + (node.clock_offset or 0.0)
    hello = [] if node.hello is None else [node.hello._replace(clock=clock)]
    tick = [] if node.tick is None else [node.tick._replace(clock=clock)]
    progress = [one for (where, _, _), one in state.progress.items() if where == name]
    parts = (_host(node), _gpus(node), _network(node), _ranks(node), _logs(node), progress)
    told: Iterator[NamedTuple] = chain.from_iterable(parts)
    link = LinkChange(name, node.link, node.why, node.since, node.next_try)
    return [link, *hello, *(_on_its_clock(node, one) for one in told), *tick]


def _on_its_clock(node: NodeState, sample: NamedTuple) -> NamedTuple:
    fields = TIMES.get(type(sample))
    return sample if fields is None else shifted(sample, fields, -shift_of(node.clock_offset))


def _host(node: NodeState) -> Iterator[NamedTuple]:
    yield from node.sources.values()
    yield from node.faults.values()
    yield from (one for one in (node.host, node.load) if one is not None)
    yield from node.disks.values()


def _gpus(node: NodeState) -> Iterator[NamedTuple]:
    for gpu in node.gpus.values():
        yield from _gpu(gpu)
    if node.gpu_processes:
        yield GpuProcesses(list(node.gpu_processes))
    if node.gpu_fault is not None:
        yield node.gpu_fault
    yield from (look.value for look in node.fabric.values())
    yield from node.fabric_services.values()
    if node.topology is not None:
        yield node.topology


def _gpu(gpu: GpuState) -> Iterator[NamedTuple]:
    newest = gpu.looks.newest
    yield from (one for one in (gpu.facts, newest, gpu.fault) if one is not None)
    yield from gpu.nvlinks.values()


def _network(node: NodeState) -> Iterator[NamedTuple]:
    for port in node.ports.values():
        yield port.facts
        for counters in (port.first, port.counters) if port.counters else ():  # growth while watched stays the same
            yield _counters(port, counters)
    for interface in node.interfaces.values():
        yield interface.facts
        if interface.counters is not None:
            yield interface.counters
    if node.tcp is not None:
        yield node.tcp.value
    yield from node.port_uses.values()


def _counters(port: PortState, counters: Mapping[str, int]) -> PortCounters:
    return PortCounters(port.facts.device, port.facts.port, port.source, dict(counters))


def _ranks(node: NodeState) -> Iterator[NamedTuple]:
    for rank in node.ranks.values():
        yield from _rank(rank)
    yield from node.launchers.values()


def _rank(rank: RankState) -> Iterator[NamedTuple]:
    process = rank.process
    # one without a number is only this process's to name
    yield process._replace(rank=max(-1, process.rank))
    newest = rank.looks.newest
    if newest is not None:
        yield newest
    yield from rank.helpers.values()
    if rank.cpu_wait is not None:
        yield rank.cpu_wait
    if rank.inside is not None:
        yield rank.inside.pulse
        yield from rank.inside.results
    if rank.gone_at is not None:
        yield RankGone(process.pid, process.rank, rank.gone_at)


def _logs(node: NodeState) -> Iterator[NamedTuple]:
    yield from node.log_files.values()
    yield from (steps.count for steps in node.steps.values())
