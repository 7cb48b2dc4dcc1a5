"""GPUs and their processes, HCA ports, interfaces and TCP: counters become growth and rates, across resets."""

from __future__ import annotations

from sys import intern

from collectors.samples.gpus import GpuFacts, GpuFault, GpuProcess, GpuProcesses, GpuSample, NvlinkCounters, bus_key
from collectors.samples.host import Counters, Interface, PortFacts
from hangtop.diagnosis.evidence.gpus import gpu_at
from hangtop.diagnosis.node import Gpu, NetworkInterface, Node, Port
from hangtop.diagnosis.series import Timed
from hangtop.session.state import SampleContext

PROCESSES = 1024
"""Processes on the GPUs of a node that are kept."""
CHANGES = 16
"""States of a port that are kept."""
SETTLED = 2.5
"""Seconds without a new value after which a counter counts as still: nodes send only changes, about once a tick."""
SETTLED_BY_TOOL = 8.0
"""The same for a port whose counters come from ``perfquery``, which runs every five seconds."""


# --- GPUs ----------------------------------------------------------------------------------------------------------


def _gpu(node: Node, index: int) -> Gpu:
    known = node.gpus.get(index)
    if known is None:
        node.gpus[index] = known = Gpu(index)
        node.gpus = dict(sorted(node.gpus.items()))
        node.roster += 1
    return known


def _place_processes(node: Node) -> None:
    """Put each process on its GPU, by the PCI address."""
    users: dict[str, list[GpuProcess]] = {}
    for process in node.gpu_processes:
        users.setdefault(bus_key(process.bus_id), []).append(process)
    for gpu in node.gpus.values():
        gpu.processes = () if gpu.facts is None else tuple(users.get(bus_key(gpu.facts.bus_id), ()))


def gpu_facts(here: SampleContext, sample: GpuFacts) -> None:
    """The fixed properties of a GPU."""
    _gpu(here.node, sample.gpu).facts = sample
    _place_processes(here.node)


def gpu_processes(here: SampleContext, sample: GpuProcesses) -> None:
    """The whole list of compute processes on the node's GPUs."""
    here.node.gpu_processes = tuple(sample.processes[:PROCESSES])
    _place_processes(here.node)


def gpu_row(here: SampleContext, sample: GpuSample) -> None:
    """A row of nvidia-smi."""
    gpu = _gpu(here.node, sample.gpu)
    gpu.samples.take(here.at, sample, here.job.samples_kept)
    gpu.ecc_first = sample.ecc_uncorrected if gpu.ecc_first is None else gpu.ecc_first
    _set_fault(here, gpu, None)


def gpu_fault(here: SampleContext, sample: GpuFault) -> None:
    """A line of nvidia-smi that is no row, or a missing index; with an empty text, the GPU answers again."""
    index, fault = sample.gpu, sample if sample.text else None
    if index is None and sample.bus_id:
        index = gpu_at(here.node, sample.bus_id)
    if index is not None:
        _set_fault(here, _gpu(here.node, index), fault)
        return
    if here.node.gpu_fault is None and fault is not None:
        here.note(f"nvidia-smi: {fault.text}", "gpu")
    here.node.gpu_fault = fault


def _set_fault(here: SampleContext, gpu: Gpu, fault: GpuFault | None) -> None:
    if gpu.fault is None and fault is not None:
        here.note(f"GPU {gpu.index}: {fault.text}", "gpu")
    elif gpu.fault is not None and fault is None:
        here.note(f"GPU {gpu.index} answers again", "back")
    gpu.fault = fault


def nvlink(here: SampleContext, sample: NvlinkCounters) -> None:
    """Errors and traffic of one NVLink."""
    gpu = _gpu(here.node, sample.gpu)
    gpu.nvlinks_first.setdefault(sample.link, sample)
    gpu.nvlinks[sample.link] = sample


# --- the network ---------------------------------------------------------------------------------------------------


def port(here: SampleContext, sample: PortFacts) -> None:
    """A port's state."""
    name = intern(f"{sample.device}/{sample.port}")
    known = here.node.ports.get(name)
    if known is None:
        here.node.ports[name] = known = Port(facts=sample, at=here.at)
        here.node.roster += 1
    elif known.facts == sample:
        return
    before, after = (f"{facts.state} {facts.phys_state}" for facts in (known.facts, sample))
    if before != after:
        here.note(f"port {name}: {before} → {after}", "port")
    known.facts = sample
    known.changes = (*known.changes, Timed(here.at, sample))[-CHANGES:]


def counters(here: SampleContext, sample: Counters) -> None:
    """Counters of a port, an interface or TCP that changed."""
    node = here.node
    table: dict[str, Port] | dict[str, NetworkInterface] = (
        node.interfaces if sample.source == "interface" else node.ports
    )
    counted = node.tcp if sample.source == "tcp" else table.get(sample.of)
    if counted is None:
        return
    if counted.source != sample.source:
        # Another tool has counters of another width: growth is only meaningful within one tool's values.
        counted.source, counted.first, counted.counters = intern(sample.source), {}, {}
    before, now = counted.counters, {**counted.counters, **sample.values}
    if len(now) > len(before) or any(value < before[name] for name, value in sample.values.items()):
        # growth before a counter's reset to zero still counts
        counted.first = {
            name: counted.first.get(name, value) - (before[name] if value < before.get(name, 0) else 0)
            for name, value in now.items()
        }
    counted.before, counted.counters = before, now
    counted.at, counted.span = here.at, here.at - counted.at


def interface(here: SampleContext, sample: Interface) -> None:
    """A network interface."""
    known = here.node.interfaces.get(sample.name)
    if known is None:
        here.node.interfaces[sample.name] = known = NetworkInterface(facts=sample, at=here.at)
        here.node.roster += 1
    if known.facts.up != sample.up:
        here.note(f"interface {sample.name} is {'up' if sample.up else 'down'}", "port")
    known.facts = sample


def settle_rates(here: SampleContext) -> None:
    """Set the rates of counters that were not sent for a while to zero, as of now: they have not moved."""
    node, at = here.node, here.at
    for counted in (*node.ports.values(), *node.interfaces.values(), node.tcp):
        settled = SETTLED_BY_TOOL if counted.source.startswith("perfquery") else SETTLED
        if counted.counters and at - counted.at > settled + here.job.untold:
            counted.before, counted.span, counted.at = counted.counters, at - counted.at, at
