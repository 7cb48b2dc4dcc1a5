"""Log lines that are findings by themselves: one row per finding, grouped by what prints the line.

The signatures of NCCL's warnings are defined in ``collectors/node/logs/rules/nccl.py``.
"""

from __future__ import annotations

import re
from functools import partial

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import text_of
from hangtop.diagnosis.failures.record import ENDING_SIGNALS, TIME_OUTS, VICTIM_SIGNATURES, cuda_error, signal_name
from hangtop.diagnosis.finding import Severity
from hangtop.diagnosis.rules.engine import EventRow, Line, retried_too_often
from hangtop.diagnosis.rules.gpus import FABRIC_UP
from hangtop.diagnosis.rules.launches import STACKS

DRAIN_GPU = "Drain the node; reset the GPU or restart the node, and check driver and firmware if it comes again."
ADAPTER_WORKS = ("Cable unplugged", "insufficient power", "High Temperature")
"""Kernel messages about network adapters that still work."""


def _nccl(signatures: str, kind: str, weight: float, summary: str, advice: str, severity: Severity = "critical"
          ) -> EventRow:  # fmt: skip
    """A row for NCCL's warnings with one of these signatures."""
    event, detail = Line("nccl.warn", {"signature": tuple(signatures.split())}), "peer interface error device"
    return EventRow(
        event=event, kind=kind, severity=severity, weight=weight, summary=summary, detail=detail, advice=advice
    )


def _gpu(problems: str, kind: str, summary: str) -> EventRow:
    """A row for GPU problems that the driver, NVIDIA's or AMD's, reports without an Xid."""
    return EventRow(
        event=Line("kernel.gpu", {"problem": tuple(problems.split())}), kind=kind, weight=0.85, scope="gpu",
        summary=f"{{node}}: {summary}", advice=DRAIN_GPU,
    )  # fmt: skip


def _limit(summary: str, advice: str, event: Line, *also: Line) -> EventRow:
    """A row for a limit of the node, the container or the process that was reached."""
    return EventRow(
        event=event, also=also, kind="limit_reached", weight=0.9, summary=summary, detail="error", advice=advice
    )


def _fatal(event: LogEvent) -> bool:
    """Whether the rank failed by itself and its run ended; a launcher's SIGTERM and Control-C do not count."""
    outlived = event.data.get("survived") is True or event.data.get("consequence") is True
    return (
        not outlived
        and signal_name(event) not in ENDING_SIGNALS
        and text_of(event, "signature") not in VICTIM_SIGNATURES | TIME_OUTS
    )


MACHINES = (
    _gpu("hung", "gpu_driver_hung", "the driver gets no answer from {gpu}"),
    _gpu("lost", "gpu_lost", "the driver cannot reach {gpu}"),
    _gpu("ecc", "gpu_ecc", "{gpu} has an uncorrectable hardware error, or needs a reset"),
    EventRow(
        event=Line("kernel.machine"), kind="kernel_trouble", weight=0.87, scope="node", example={"problem": "panic"},
        summary="the hardware or the kernel of {node} failed", detail="problem",
        advice="Drain the node: its hardware or its kernel failed; see the management controller's log.",
    ),
    EventRow(
        event=Line("kernel.hung_task"), kind="kernel_trouble", severity="warning",
        weight=0.8, scope="node", accuses=False,
        summary="a task or a CPU is stuck in the kernel of {node}", detail="process",
        advice="Storage or a driver does not answer; drain the node if it does not come back.",
    ),
    EventRow(
        event=Line("kernel.sxid", {"fatal": ("Fatal", "fatal")}),
        kind="nvlink_errors", weight=0.9, scope="node", example={"code": 12028},
        summary="a fatal error of NVLink or an NVSwitch was reported on {node}",
        advice="Drain the node; restart it and its fabric manager.",
    ),
    EventRow(
        event=Line("kernel.link"), kind="kernel_trouble", weight=0.8, scope="node",
        where=lambda event: not any(words in text_of(event, "problem") for words in ADAPTER_WORKS),
        example={"problem": "health compromised"}, other={"problem": "Cable unplugged"},
        summary="a network adapter of {node} does not work", detail="problem",
        advice="Drain the node; reset the adapter or restart the node, and look at its firmware and seating.",
    ),
    EventRow(
        event=Line("gpu.unseen"), kind="gpu_lost", weight=0.8, summary="the driver shows no GPU{on}", detail="error",
        advice="Look at dmesg for an Xid; restart the node, or a container that lost its GPUs.",
    ),
)  # fmt: skip

CUDA_HARDWARE = (
    ("nvlink_fabric_down", re.compile(r"system not yet initialized|\berror 802\b", re.IGNORECASE),
     "system not yet initialized", FABRIC_UP),
    ("nvlink_errors", re.compile(r"nvlink", re.IGNORECASE), "uncorrectable NVLink error", DRAIN_GPU),
    ("gpu_ecc", re.compile(r"uncorrectable|\becc\b", re.IGNORECASE), "uncorrectable ECC error encountered", DRAIN_GPU),
    ("gpu_lost", re.compile(r"gpu is lost|fallen off|unrecoverable|device\b.*\blost|gpu hang", re.IGNORECASE),
     "GPU is lost", DRAIN_GPU),
)  # fmt: skip
"""CUDA errors that no program can cause: kind, pattern, example and advice; the first match counts."""


def _proves(kind: str, event: LogEvent) -> bool:
    """Whether a CUDA error, whatever prints it, proves this kind."""
    if text_of(event, "signature") == "init_failed":  # NCCL cannot bind NVLink SHARP memory
        return kind == "nvlink_fabric_down" and "NVL" in event.text and "401" in event.text
    error = cuda_error(event)
    if event.kind == "process.signal":
        error = text_of(event, "what").partition("CUDA error: ")[2].partition("\n")[0]
    elif event.kind == "python.exception" and text_of(event, "signature") == "cuda":
        error = text_of(event, "message")
    return kind == next((name for name, pattern, *_ in CUDA_HARDWARE if pattern.search(error)), "")


CUDA = tuple(
    EventRow(
        event=Line("torch.cuda_error"),
        also=tuple(map(Line, ("torch.watchdog_error", "nccl.warn", "python.exception", "process.signal"))),
        kind=kind, weight=0.9, where=partial(_proves, kind), example={"error": error}, other={"error": "assert"},
        summary="CUDA error on {who}", detail="error message what", advice=advice,
    ) for kind, _, error, advice in CUDA_HARDWARE
)  # fmt: skip

LIMITS = (
    _limit("{who} could not get shared memory (/dev/shm){on}",
           "Start the container with --shm-size=16g or --ipc=host; NCCL alone wants 1 GB.",
           Line("host.shared_memory"), Line("nccl.warn", {"signature": ("shared_memory",)}),
           Line("torch.worker_died", {"signal": ("BUS",)})),
    _limit("file descriptors ran out on {who}", "Raise the limit of open files (ulimit -n 1048576).",
           Line("host.open_files"), Line("nccl.warn", {"signature": ("open_files",)})),
    _limit("{who} could not start another process or thread",
           "Look at ulimit -u and the cgroup's pids.max; OMP_NUM_THREADS=1 needs less.", Line("host.processes")),
    _limit("{who} ran out of host memory{on}",
           "Look at the node's memory and the job's limit (cgroup, Slurm --mem).", Line("host.memory")),
    _limit("the InfiniBand driver could not pin memory for {who}",
           "Raise the memlock limit to unlimited (limits.conf, LimitMEMLOCK of the service, --ulimit memlock=-1).",
           Line("nccl.warn", {"signature": ("ib_memory",)})),
)  # fmt: skip

NCCL = (
    EventRow(
        event=Line("nccl.warn", {"signature": ("duplicate_gpu",)}), kind="nccl_init_failed", weight=0.95,
        ranks_in="group_ranks", example={"group_ranks": [0, 1]}, summary="{who} use the same GPU{on}, bus id",
        detail="device",
        advice="Give each rank its own GPU: torch.cuda.set_device(LOCAL_RANK); leave CUDA_VISIBLE_DEVICES alone.",
    ),
    EventRow(
        event=Line("nccl.connect_retry"), also=(Line("nccl.warn", {"signature": ("connect_failed",)}),),
        kind="nccl_connect_failed", weight=0.8, where=retried_too_often, example={"tried": 34}, other={"tried": 3},
        summary="{who} cannot connect to a peer", detail="peer",
        advice="Wrong interface (NCCL_SOCKET_IFNAME), a firewall, or the peer was not up: probe the path to it.",
    ),
    _nccl("ib_retry_exceeded", "ib_retry_exceeded", 0.88, "{who}{on} got no answer over InfiniBand",
          "A port, cable, switch or host on the way is dead or lossy: look at the error counters of both ends."),
    EventRow(
        event=Line("nccl.warn", {"signature": ("ib_completion",)}), kind="ib_transfer_failed", weight=0.85,
        summary="an InfiniBand transfer of {who} failed{on}", detail="error",
        advice="Status 4 (local protection) or 10 (remote access): an adapter may not use that memory; look at "
        "GPUDirect RDMA (nvidia_peermem or DMA-BUF), IOMMU and PCIe ACS. Else: firmware and driver of both adapters.",
    ),
    _nccl("no_interface", "nccl_init_failed", 0.93,
          "NCCL finds no network interface that fits NCCL_SOCKET_IFNAME{on}",
          "Set NCCL_SOCKET_IFNAME to an interface that every node has (ip -br link), or remove it."),
    _nccl("version_mismatch", "nccl_init_failed", 0.95, "ranks run different versions of NCCL",
          "Give every node the same image, or the same wheel of torch."),
    EventRow(
        event=Line("nccl.warn", {"signature": ("truncated",)}), also=(Line("gloo.size_mismatch"),),
        kind="collective_size_mismatch", weight=0.75, accuses=False,
        summary="{who} received a message of another size than expected",
        advice="Compare tensor sizes over the ranks: with TORCH_DISTRIBUTED_DEBUG=DETAIL torch names both shapes.",
    ),
    _nccl("init_failed", "nccl_init_failed", 0.75,
          "NCCL cannot set up the communicator of {who}{on}",
          "By its text: two processes have one RANK; NCCL_IB_GID_INDEX does not fit (ibv_modify_qp); Fabric Manager or "
          "IMEX is down (NVLS); GPUs are hidden from each other (CUDA IPC)."),
    _nccl("ib_port_error", "ib_port_errors", 0.85, "an InfiniBand port of this host reported an error{on}",
          "Check cable and transceiver of that port.", "warning"),
)  # fmt: skip

JOBS = (
    EventRow(
        event=Line("torch.address_in_use"), kind="address_in_use", weight=0.93,
        summary="a port that {who} wants is already in use", detail="port",
        advice="End the process that holds it (ss -ltnp; an earlier run, as a rule), or choose another MASTER_PORT.",
    ),
    EventRow(
        event=Line("torch.unresolved"), kind="init_hang", weight=0.85,
        beside=(Line("torch.store_retry"), Line("torch.store_timeout", {"phase": ("connect",)}),
                Line("python.exception", {"signature": ("store", "rendezvous")})),
        summary="MASTER_ADDR does not resolve", detail="address",
        advice="Use an address that every node resolves, or the first node's IP address.",
    ),
    EventRow(
        event=Line("torch.unused_parameters"), kind="unused_parameters", weight=0.93,
        summary="parameters got no gradient in this step ({who})", detail="names",
        advice="Use every parameter in the loss on every rank, or find_unused_parameters=True.",
    ),
    EventRow(
        event=Line("torch.store_lost"), kind="nccl_remote_error", weight=0.6, severity="warning", accuses=False,
        summary="{who} lost the connection to the store: its server, as a rule in rank 0's process, ended before",
        advice="Look at the end of rank 0's log. At the end of a run that went well, this is no fault.",
    ),
    EventRow(
        event=Line("torch.desync"), kind="collective_mismatch", weight=0.85, ranks_in="lagging",
        example={"lagging": [1]}, summary="{who} did not join the collective of the others", advice=STACKS,
    ),
    EventRow(
        event=Line("torch.barrier_failed"), kind="collective_mismatch", weight=0.85, ranks_in="missing",
        example={"missing": [1]}, summary="{who} did not come to the barrier that the others wait in", advice=STACKS,
    ),
    EventRow(
        event=Line("torch.watchdog_stuck"), kind="rank_stuck_on_lock", weight=0.6,
        unless=(Line("torch.watchdog_timeout"), Line("torch.watchdog_status")),
        summary="NCCL's watchdog of {who} made no progress itself, so the GIL or a CUDA call there is stuck",
        advice="Dump the stacks there with native frames; look for Xid lines on the nodes.",
    ),
    EventRow(
        event=Line("torch.out_of_memory"),
        also=(Line("python.exception", {"signature": ("out_of_memory",)}), Line("nccl.warn", {"signature": ("cuda",)})),
        kind="gpu_out_of_memory", weight=0.92,
        where=lambda event: event.kind != "nccl.warn" or "out of memory" in text_of(event, "error"),
        summary="{who} ran out of GPU memory", detail="asked",
        advice="Lower the batch, shard or checkpoint activations; look what else is on that GPU (nvidia-smi).",
    ),
    EventRow(
        event=Line("engine.timeout"), kind="watchdog_timeout", weight=0.6, accuses=False,
        summary="the inference engine got no answer from its workers", detail="call",
        advice="Dump the stacks of all workers while it hangs (py-spy dump): the odd one is to blame.",
    ),
    EventRow(
        event=Line("launcher.lost_node"), kind="node_unreachable", weight=0.85,
        summary="the launcher cannot reach a node{on}", detail="why",
        advice="Look at that node: did it restart or run out of memory, was the daemon killed, is its network up?",
    ),
    # the last lines of a launcher or a rank, if nothing else is known
    EventRow(
        event=Line("python.exception", {"signature": ("child_failed",)}), kind="child_failed_no_detail", weight=0.6,
        last_resort=True, accuses=False, summary="a rank failed, and only its launcher's message was recorded",
        advice="Look at the output of the ranks, above the launcher's: the cause stands there.",
    ),
    EventRow(
        event=Line("log.error"), also=(Line("torch.watchdog_error"),), kind="rank_crashed", weight=0.4,
        where=_fatal, unless=(Line("torch.watchdog_timeout"),),
        last_resort=True, other={"consequence": True}, summary="{who} ended with an error", detail="error message type",
        advice="Only its last lines are here: look at that rank's own output; NCCL_DEBUG=WARN makes NCCL say why.",
    ),
)  # fmt: skip

EVENT_ROWS = (*MACHINES, *CUDA, *LIMITS, *NCCL, *JOBS)
