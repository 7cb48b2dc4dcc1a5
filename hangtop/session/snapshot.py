"""What a session knows at one moment, as entries of a recording: replayed, they show the same as the session did.

What moves has no past there. Times in a recording are the node's: those of the state are this machine's, and are
shifted back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from collectors.fleet.sink import LinkChange
from collectors.samples.fabric import PortCounters
from collectors.samples.gpus import GpuProcesses
from collectors.samples.ranks import RankGone
from hangtop.session.apply.clock import TIMES, shift_of, shifted
from hangtop.session.apply.dispatch import BY_KEY, LATEST
from hangtop.session.entries import Payload
from hangtop.session.state.job_state import GpuState, JobState, NodeState, PortState, RankState


def snapshot_of(state: JobState, name: str, at: float) -> list[Payload]:
    """All that is known of a node and of its ranks' collectives."""
    node = state.nodes[name]
    back = -shift_of(node.clock_offset)
    clock = at + (node.clock_offset or 0.0)
    known = [sample for sample in _known(node) if sample is not None]
    known += [one for (where, _, _), one in state.progress.items() if where == name]
    return [
        LinkChange(name, node.link, node.why, node.since, node.next_try),
        *([] if node.hello is None else [node.hello._replace(clock=clock)]),
        *(shifted(one, TIMES[type(one)], back) if type(one) in TIMES else one for one in known),
        *([] if node.tick is None else [node.tick._replace(clock=clock)]),
    ]


def _known(node: NodeState) -> Iterator[NamedTuple | None]:
    """Samples that make the state of a node; None for some that there is not."""
    yield from (getattr(node, name) for name in LATEST.values())
    for name in (*BY_KEY.values(), "sources", "fabric_services", "launchers", "log_files"):
        yield from getattr(node, name).values()
    for gpu in node.gpus.values():
        yield from _gpu(gpu)
    yield GpuProcesses(list(node.gpu_processes)) if node.gpu_processes else None
    yield node.gpu_fault
    yield from (look.value for look in node.fabric.values())
    yield node.topology
    for port in node.ports.values():
        yield from _port(port)
    for interface in node.interfaces.values():
        yield from (interface.facts, interface.counters)
    yield node.tcp.value if node.tcp is not None else None
    for rank in node.ranks.values():
        yield from _rank(rank)
    yield from (steps.count for steps in node.steps.values())


def _gpu(gpu: GpuState) -> Iterator[NamedTuple | None]:
    yield from (gpu.facts, gpu.looks.newest, gpu.fault)
    yield from gpu.nvlinks.values()


def _port(port: PortState) -> Iterator[NamedTuple]:
    yield port.facts
    for counters in (port.first, port.counters) if port.counters else ():  # growth while watched stays the same
        yield PortCounters(port.facts.device, port.facts.port, port.source, dict(counters))


def _rank(rank: RankState) -> Iterator[NamedTuple | None]:
    process = rank.process
    # one without a number is only this process's to name
    yield process._replace(rank=max(-1, process.rank))
    yield from (rank.looks.newest, rank.cpu_wait)
    yield from rank.helpers.values()
    if rank.inside is not None:
        yield rank.inside.pulse
        yield from rank.inside.results
    if rank.gone_at is not None:
        yield RankGone(process.pid, process.rank, rank.gone_at)
