"""GPUs, who is on them, and what nvidia-smi says instead of a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collectors.samples.gpus import (
    FabricService,
    GpuFabric,
    GpuFacts,
    GpuFault,
    GpuProcess,
    GpuProcesses,
    GpuSample,
    NvlinkCounters,
    Topology,
    bus_key,
)
from hangtop.diagnosis.looks import Look
from hangtop.diagnosis.node import Gpu, Node
from hangtop.session.apply.dispatch import SampleContext, applies

PROCESSES = 1024
"""Processes on the GPUs of a node that are told apart."""
NVLINK_ERRORS = ("replay_errors", "recovery_errors", "crc_errors")


def _gpu(node: Node, index: int) -> Gpu:
    known = node.gpus.get(index)
    if known is None:
        node.gpus[index] = known = Gpu(index)
        node.gpus = dict(sorted(node.gpus.items()))
        node.roster += 1
    return known


@applies(GpuFacts)
def facts(here: SampleContext, sample: GpuFacts) -> None:
    """What does not move in a GPU."""
    gpu = _gpu(here.node, sample.gpu)
    gpu.facts = sample
    gpu.processes = tuple(gpu_users(here.node).get(bus_key(sample.bus_id), ()))


@applies(GpuSample)
def row(here: SampleContext, sample: GpuSample) -> None:
    """A row of nvidia-smi."""
    gpu = here.node.gpus.get(sample.gpu) or _gpu(here.node, sample.gpu)
    gpu.looks.take(here.at, sample, here.job.looks_kept)
    if gpu.fault is not None:
        _answers_again(here, gpu)


@applies(GpuProcesses)
def processes(here: SampleContext, sample: GpuProcesses) -> None:
    """The whole compute-apps list."""
    here.node.gpu_processes = tuple(sample.processes[:PROCESSES])
    users = gpu_users(here.node)
    for gpu in here.node.gpus.values():
        gpu.processes = () if gpu.facts is None else tuple(users.get(bus_key(gpu.facts.bus_id), ()))


def gpu_users(node: Node) -> Mapping[str, Sequence[GpuProcess]]:
    """Who is on the GPUs of a node, by the PCI address of each."""
    users: dict[str, list[GpuProcess]] = {}
    for process in node.gpu_processes:
        users.setdefault(bus_key(process.bus_id), []).append(process)
    return users


@applies(GpuFault)
def fault(here: SampleContext, sample: GpuFault) -> None:
    """A line that is no row, or a missing index; an empty text says that it answers again."""
    index = sample.gpu
    if index is None and sample.bus_id:
        key = bus_key(sample.bus_id)
        index = next((g.index for g in here.node.gpus.values() if g.facts and bus_key(g.facts.bus_id) == key), None)
    if index is None:
        if here.node.gpu_fault is None and sample.text:
            here.note(f"nvidia-smi: {sample.text}", "gpu")
        here.node.gpu_fault = sample if sample.text else None
        return
    gpu = _gpu(here.node, index)
    if sample.text:
        if gpu.fault is None:
            here.note(f"GPU {index}: {sample.text}", "gpu")
        gpu.fault = sample
    elif gpu.fault is not None:
        _answers_again(here, gpu)


def _answers_again(here: SampleContext, gpu: Gpu) -> None:
    gpu.fault = None
    here.note(f"GPU {gpu.index} answers again", "back")


@applies(NvlinkCounters)
def nvlink(here: SampleContext, sample: NvlinkCounters) -> None:
    """Errors and traffic of one NVLink."""
    gpu = _gpu(here.node, sample.gpu)
    before = gpu.nvlinks.get(sample.link)
    gpu.nvlinks[sample.link] = sample
    grown = dict(gpu.nvlink_grown.get(sample.link, ()))
    for name in NVLINK_ERRORS:
        was, now = getattr(before, name, None), getattr(sample, name)
        if was is not None and now is not None and now != was:
            # A counter that began again counts from zero.
            grown[name] = grown.get(name, 0) + (now - was if now > was else now)
            gpu.nvlink_grown[sample.link] = grown


@applies(GpuFabric)
def fabric(here: SampleContext, sample: GpuFabric) -> None:
    """How far a GPU has come in joining its fabric; when that was first seen counts."""
    known = here.node.fabric.get(sample.gpu)
    if known is None or known.value != sample:
        here.node.fabric[sample.gpu] = Look(here.at, sample)


@applies(FabricService)
def service(here: SampleContext, sample: FabricService) -> None:
    """A daemon of the NVLink fabric."""
    known = here.node.fabric_services.get(sample.name)
    if known is not None and known.state != sample.state:
        here.note(f"{sample.name}: {known.state} → {sample.state} ({sample.said})", "gpu")
    here.node.fabric_services[sample.name] = sample


@applies(Topology)
def topology(here: SampleContext, sample: Topology) -> None:
    """How GPUs and NICs are connected; rows that do not fit the devices are dropped."""
    size = len(sample.devices)
    if len(sample.links) == size == len(sample.numa) and all(len(row) == size for row in sample.links):
        here.node.topology = sample
