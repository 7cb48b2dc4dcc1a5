"""GPUs that are slower than their peers: throttled, or on a narrow PCIe link."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from collectors.samples.gpus import GpuSample
from hangtop.diagnosis.evidence.devices import GpuLook, newest
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.job import Gpu, Job, Look
from hangtop.diagnosis.peers import median_without
from hangtop.diagnosis.phrasing import listed
from hangtop.diagnosis.rules.hardware import on_gpu
from hangtop.diagnosis.tables.thresholds import (
    BAD_EVENT_REASONS,
    LATE_LOOKS,
    LOAD_UTILIZATION,
    LOW_CLOCK_SHARE,
    SLOW_CLOCK_SHARE,
)

LAST_LOOKS = 8
"""Samples back that count: what was cured is not reported."""
SPREAD = 256
"""GPUs, spread evenly over a large job, whose samples tell what is usual."""
BAD_BITS = sum(BAD_EVENT_REASONS)


def gpu_throttled(job: Job) -> Iterator[Finding]:
    """gpu_throttled: under load, a bad event reason and an SM clock under its peers', in most of the last samples.

    Needs utilisation, SM clock and event reasons of nvidia-smi in two samples or more. Without slower peers to compare
    with (a whole rack on its power brake), the clock must be far under the GPU's own maximum.
    """
    for (node, gpu, *_), looks in _loaded(row for row in newest(job) if _is_loaded(row.sample) and _is_bad(row.sample)):
        bad = [look for look in looks if _is_bad(look.value)]
        clock, own = _clock(bad), _clock(looks)
        if len(bad) < LATE_LOOKS or len(bad) * 2 < len(looks) or clock is None or own is None:
            continue
        speeds = job.once(_usual_clocks).get(_model(gpu), ())
        others = median_without(speeds, own) if len(speeds) > 1 else None
        top = gpu.facts.sm_clock_max if gpu.facts else None
        slower = others is not None and clock < SLOW_CLOCK_SHARE * others
        if not slower and (top is None or clock >= LOW_CLOCK_SHARE * top):
            continue
        last = bad[-1].value
        reasons = listed([text for bit, text in BAD_EVENT_REASONS.items() if (last.event_reasons or 0) & bit])
        against = f"its peers run at {others:.0f}" if slower else f"its maximum is {top}"
        proof = (
            f"GPU {gpu.index}: {last.utilization} %, {last.sm_clock} MHz, {last.power} W, {last.temperature} °C, "
            f"clocks_event_reasons {last.event_reasons or 0:#x}"
        )
        yield on_gpu(
            job, node, gpu, "gpu_throttled", "warning", 0.9 if slower else 0.75,
            f"runs at {clock:.0f} MHz, {against}: {reasons}",
            Evidence(f"nvidia-smi on {node.name}", bad[-1].at, proof),
            "Every rank waits for the slowest GPU. Check cooling, power supply and power cap of this one; move the job "
            "off it.",
        )  # fmt: skip


def gpu_pcie_degraded(job: Job) -> Iterator[Finding]:
    """gpu_pcie_degraded: link generation or width under its maximum in every sample under load.

    Needs the PCIe columns of nvidia-smi under load: links fall back when idle.
    """
    for (node, gpu, *_), looks in _loaded(row for row in newest(job) if _is_loaded(row.sample) and row.gpu.facts):
        wrong = []
        for what, top, values in (
            ("generation", gpu.facts and gpu.facts.pcie_gen_max, [look.value.pcie_gen for look in looks]),
            ("width", gpu.facts and gpu.facts.pcie_width_max, [look.value.pcie_width for look in looks]),
        ):
            known = [value for value in values if value is not None]
            if top and len(known) >= LATE_LOOKS and max(known) < top:
                wrong.append(f"{what} {known[-1]} of {top}")
        if wrong:
            yield on_gpu(
                job, node, gpu, "gpu_pcie_degraded", "warning", 0.8,
                f"has a slow PCIe link under load: {listed(wrong)}",
                Evidence(f"nvidia-smi on {node.name}", looks[-1].at, f"PCIe {listed(wrong)}"),
                "Reseat the card or its riser; compare with the other nodes: a slot may be built that way.",
            )  # fmt: skip


def _loaded(rows: Iterable[GpuLook]) -> Iterator[tuple[GpuLook, Sequence[Look[GpuSample]]]]:
    """GPUs that were under load in some of their last samples, and those samples."""
    for row in rows:
        if looks := [look for look in row.gpu.looks[-LAST_LOOKS:] if _is_loaded(look.value)]:
            yield row, looks


def _usual_clocks(job: Job) -> dict[str, list[float]]:
    """Clocks under load by model, in order."""
    peers: dict[str, list[float]] = defaultdict(list)
    for row, looks in _loaded(newest(job)[:: len(newest(job)) // SPREAD | 1]):
        clock = _clock(looks)
        if clock is not None:
            peers[_model(row.gpu)].append(clock)
    return {model: sorted(speeds) for model, speeds in peers.items()}


def _is_loaded(sample: GpuSample) -> bool:
    return (sample.utilization or 0) >= LOAD_UTILIZATION


def _is_bad(sample: GpuSample) -> bool:
    return bool((sample.event_reasons or 0) & BAD_BITS)


def _clock(looks: Iterable[Look[GpuSample]]) -> float | None:
    clocks = [look.value.sm_clock for look in looks if look.value.sm_clock is not None]
    return median(clocks) if clocks else None


def _model(gpu: Gpu) -> str:
    return gpu.facts.name if gpu.facts else ""
