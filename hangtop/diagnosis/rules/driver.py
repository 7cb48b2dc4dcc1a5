"""What the driver says of a GPU without an Xid: it cannot be started, or parts of it do not answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job, Node
from hangtop.diagnosis.witnesses.devices import event_line, events_on, gpu_at, ranks_on_gpu
from hangtop.diagnosis.witnesses.event_fields import number_of, text_of
from hangtop.diagnosis.witnesses.messages import hosts_in, lines, said

PROBLEMS: dict[str, tuple[str, str]] = {
    "gsp_timeout": ("gpu_driver_hung", "the driver waits in vain for {gpu} (its GSP does not answer)"),
    "needs_reset": ("gpu_needs_reset", "{gpu} wants a reset, says the driver"),
    "locked": ("gpu_driver_hung", "{gpu} is probably locked, says the driver"),
    "init_failed": ("gpu_lost", "the driver cannot start {gpu}"),
    "bad_register": ("gpu_lost", "{gpu} does not answer on the bus, says the driver"),
    "amd_memory": ("gpu_ecc", "{gpu} has an uncorrectable hardware error"),
    "amd_lost": ("gpu_lost", "{gpu} is lost"),
    "amd_page_fault": ("gpu_xid", "a kernel on {gpu} touched an address that is not mapped (page fault)"),
    "amd_shader": ("gpu_xid", "a kernel on {gpu} ran into an error of its shaders"),
    "amd_reset": ("gpu_needs_reset", "{gpu} hangs, and its driver resets it"),
}
"""Words of ``kernel.gpu`` → kind and summary."""
OF_PROGRAMS = frozenset({"amd_page_fault", "amd_shader"})
"""Which of them are the program's fault, as a rule."""
NAMELESS = "node"
"""The node of files that name none."""
DRAIN = "Drain the node; reset the GPU or restart the node, and check driver and firmware if it comes again."
PROGRAM = "Look in the program first: an index out of bounds, memory that was freed. The GPU is whole, as a rule."


def told(job: Job) -> Iterator[Finding]:
    """gpu_lost, gpu_driver_hung and others by the driver's lines that carry no Xid, NVIDIA's and AMD's.

    Needs the kernel log.
    """
    for name in sorted(job.nodes):
        node = job.nodes[name]
        found: dict[tuple[str, str], list[LogEvent]] = defaultdict(list)
        for event in events_on(job, node, "kernel.gpu"):
            found[text_of(event, "problem"), _gpu(node, event)].append(event)
        for (problem, gpu), events in sorted(found.items()):
            if problem not in PROBLEMS or (not gpu and any(other == problem and which for other, which in found)):
                continue
            kind, summary = PROBLEMS[problem]
            what = f"GPU {gpu}" if gpu else "a GPU"
            index = int(gpu) if gpu.isdecimal() else None
            own = problem in OF_PROGRAMS
            yield Finding(
                kind, "warning" if own else "critical", 0.85, f"{name}: {summary.format(gpu=what)}",
                ranks=ranks_on_gpu(job, node, index), nodes=(name,), gpus=(f"{name}:{gpu}",) if gpu else (),
                evidence=tuple(event_line(event) for event in events[:4]), advice=PROGRAM if own else DRAIN,
            )  # fmt: skip


def unseen(job: Job) -> Iterator[Finding]:
    """gpu_lost by NVML: a container or a node no longer sees its GPUs, or driver and library do not match.

    Needs nvidia-smi's words in a log.
    """
    events = said(job, "gpu.unseen")
    if not events:
        return
    error = text_of(events[0], "error")
    mismatch = "mismatch" in error
    yield Finding(
        "gpu_lost", "critical", 0.8,
        f"the driver shows no GPU{' here' if not hosts_in(job, events) else ''}: NVML says {error}",
        nodes=hosts_in(job, events), evidence=lines(events),
        advice="The driver was updated under a running kernel module: restart the node, or reload the module."
        if mismatch else "Look at dmesg for an Xid; in a container, whether it lost its devices (systemd's "
        "daemon-reload does that): start it anew.",
    )  # fmt: skip


def _gpu(node: Node, event: LogEvent) -> str:
    """Index of the GPU where it is known, else its address; empty where the line names none."""
    index, bus = number_of(event, "gpu"), text_of(event, "bus_id")
    if index is None and bus:
        index = gpu_at(node, bus)
    return bus if index is None else str(index)
