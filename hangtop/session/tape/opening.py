"""What a session knew at one moment, as samples: a recording that begins there shows the same as the session did.

Counters begin to count there, and what moves has no past. Times in a recording are the node's: those of the state are
this machine's, and are shifted back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from collectors.fleet.sink import LinkChange
from collectors.samples.fabric import PortCounters
from collectors.samples.gpus import GpuProcesses
from collectors.samples.logs import CommProgress, LogEvent
from collectors.samples.ranks import RankGone
from hangtop.session.clock import shift_of
from hangtop.session.state.job_state import GpuState, NodeState, RankState
from hangtop.session.store import TIMES, shifted


def link_of(node: NodeState, at: float) -> LinkChange:
    """How the connection to a node is."""
    return LinkChange(node.name, node.link, node.why, at, node.next_try)


def opening(
    node: NodeState, at: float, progress: Iterable[CommProgress] = (), events: Iterable[LogEvent] = ()
) -> list[NamedTuple]:
    """All that is known of a node, of its ranks' collectives and what its logs said before, as its samples."""
    offset = node.clock_offset
    clock = at + (offset or 0.0)
    hello = [] if node.hello is None else [node.hello._replace(clock=clock)]
    tick = [] if node.tick is None else [node.tick._replace(clock=clock)]
    parts = (_host(node), _gpus(node), _network(node), _ranks(node), _logs(node), progress, events)
    told: Iterator[NamedTuple] = chain.from_iterable(parts)
    shift = -shift_of(offset)
    return [*hello, *(shifted(one, TIMES[type(one)], shift) if type(one) in TIMES else one for one in told), *tick]


def _host(node: NodeState) -> Iterator[NamedTuple]:
    yield from node.sources.values()
    yield from node.faults.values()
    yield from (one for one in (node.host, node.load) if one is not None)
    yield from node.disks.values()
    yield from node.locations.values()


def _gpus(node: NodeState) -> Iterator[NamedTuple]:
    for gpu in node.gpus.values():
        yield from _gpu(gpu)
    yield GpuProcesses(list(node.gpu_processes))
    if node.gpu_fault is not None:
        yield node.gpu_fault
    yield from (look.value for look in node.fabric.values())
    yield from node.fabric_services.values()


def _gpu(gpu: GpuState) -> Iterator[NamedTuple]:
    newest = gpu.looks.newest
    yield from (one for one in (gpu.facts, newest, gpu.fault) if one is not None)
    yield from gpu.nvlinks.values()


def _network(node: NodeState) -> Iterator[NamedTuple]:
    for port in node.ports.values():
        yield port.facts
        if port.counters:
            values = dict(zip(port.counters.names, port.counters.numbers, strict=True))
            yield PortCounters(port.facts.device, port.facts.port, port.source, values)
    for interface in node.interfaces.values():
        yield interface.facts
        if interface.counters is not None:
            yield interface.counters
    if node.tcp is not None:
        yield node.tcp.value
    yield from node.port_uses.values()


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
    if rank.opened is not None:
        yield rank.opened
    if rank.gone_at is not None:
        yield RankGone(process.pid, process.rank, rank.gone_at)


def _logs(node: NodeState) -> Iterator[NamedTuple]:
    yield from node.log_files.values()
    yield from (steps.count for steps in node.steps.values())
