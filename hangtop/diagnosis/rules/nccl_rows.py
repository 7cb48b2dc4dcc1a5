"""What NCCL, gloo and the network libraries below them say in their logs, a row a finding.

Signatures of NCCL's warnings are those of ``docs/log-events.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import number_of, text_of
from hangtop.diagnosis.rules.engine import FAILING, EventRow, Told

HARMLESS: Mapping[str, Any] = {"signature": "env"}
"""Fields of a warning that is no finding."""
NCCL_SAYS_WHY = (Told("nccl.warn", {"signature": FAILING}), Told("job.finished"))
MEMLOCK = "Raise the memlock limit to unlimited (limits.conf, LimitMEMLOCK of the service, --ulimit memlock=-1)."
SAME_SIZES = "Compare tensor sizes over the ranks, and settings that must agree (NCCL_ALGO, NCCL_PROTO, NCCL_BUFFSIZE)."


def _warned(*signatures: str) -> Told:
    return Told("nccl.warn", {"signature": signatures})


def _library(*signatures: str) -> Told:
    return Told("fabric.error", {"signature": signatures})


def _no_peer(event: LogEvent) -> bool:
    return not text_of(event, "peer")


def _wrong(event: LogEvent) -> bool:
    return (number_of(event, "wrong") or 0) > 0


NCCL = (
    EventRow(
        event=_warned("duplicate_gpu"), kind="duplicate_gpu", weight=0.95, other=HARMLESS, ranks_in="group_ranks",
        example={"group_ranks": [0, 1], "device": "1b000"}, summary="{who} use the same GPU", details=(", {device}",),
        advice="Give each rank its own GPU: torch.cuda.set_device(LOCAL_RANK), and no CUDA_VISIBLE_DEVICES by hand "
        "under torchrun.",
    ),
    EventRow(
        event=_warned("no_interface"), kind="nccl_no_interface", weight=0.93, other=HARMLESS,
        summary="NCCL finds no network interface that fits NCCL_SOCKET_IFNAME{on}", details=(": {interface}",),
        advice="Set NCCL_SOCKET_IFNAME to an interface that every node has (ip -br link), or remove it.",
    ),
    EventRow(
        event=_warned("version_mismatch"), kind="nccl_version_mismatch", weight=0.95, other=HARMLESS,
        summary="ranks run different versions of NCCL",
        advice="Give every node the same image, or the same wheel of torch.",
    ),
    EventRow(
        event=_warned("ib_memory"), kind="memlock_limit", weight=0.85, other=HARMLESS,
        summary="the InfiniBand driver could not pin memory for {who}", details=(": {error}",), advice=MEMLOCK,
    ),
    EventRow(
        event=_warned("duplicate_rank"), kind="nccl_init_failed", weight=0.9, other=HARMLESS,
        summary="two processes came to NCCL with the same rank, or they disagree on how many there are",
        advice="Every process needs its own RANK and all the same WORLD_SIZE: was the job started twice, or once per "
        "node with the same NODE_RANK or Slurm settings?",
    ),
    EventRow(
        event=_warned("size_mismatch", "truncated"), kind="collective_size_mismatch", weight=0.75, other=HARMLESS,
        accuses=False,
        summary="{who} received a message of another size than expected",
        details=(": {bytes} bytes from {peer}, {expected} expected",), advice=SAME_SIZES,
    ),
    EventRow(
        event=_warned("open_files"), kind="open_files_limit", weight=0.9, other=HARMLESS,
        summary="file descriptors ran out on {who}", advice="Raise the limit of open files (ulimit -n 1048576).",
    ),
    EventRow(
        event=_warned("ib_queue_pair"), kind="nccl_init_failed", weight=0.8, other=HARMLESS,
        summary="InfiniBand queue pairs cannot be connected ({who}): GID index or RoCE routing",
        details=(": {error}",),
        advice="Leave NCCL_IB_GID_INDEX unset from NCCL 2.21 on; check that the nodes' RoCE networks route to each "
        "other.",
    ),
    EventRow(
        event=_warned("nvls"), kind="nccl_init_failed", weight=0.75, other=HARMLESS,
        summary="NVLink SHARP could not be set up{on}", details=(": {error}",),
        advice="Check the fabric manager and IMEX on these nodes; NCCL_NVLS_ENABLE=0 works around it.",
    ),
    EventRow(
        event=_warned("cuda_ipc"), kind="nccl_init_failed", weight=0.85, other=HARMLESS,
        summary="a GPU of {who} cannot open another one's memory (CUDA IPC)", details=(": {error}",),
        advice="The GPUs do not support peer access, or CUDA_VISIBLE_DEVICES and containers hide them from each "
        "other. NCCL_P2P_DISABLE=1 works around it.",
    ),
    EventRow(
        event=_warned("ib_queue_error", "ib_completion"), kind="nccl_init_failed", weight=0.6, other=HARMLESS,
        summary="an InfiniBand operation of {who} was refused", details=(": {status_name}", " ({device})"),
        advice="The status says why: access or protection errors come from memory registration, drivers or firmware "
        "that do not fit, or a peer that freed its memory; they are no fault of cable or port.",
    ),
    EventRow(
        event=_warned("ib_port_error"), kind="ib_link_flapped", severity="warning", weight=0.85, other=HARMLESS,
        summary="an InfiniBand port of this host reported an error{on}", details=(" (device {device})",),
        advice="Check cable and transceiver of that port.",
    ),
    EventRow(
        event=_warned("net_failed"), kind="nccl_init_failed", weight=0.6, other=HARMLESS,
        unless=(Told("nccl.init", {"phase": ("complete",)}),),
        summary="NCCL's network plugin fails on {who}", details=(": {error}",),
        advice="With EFA: do the security groups let the nodes reach each other in both directions, and do plugin, "
        "libfabric and driver fit together (fi_info -p efa on every node)?",
    ),
    EventRow(
        event=_warned("invalid_device"), kind="invalid_device", weight=0.9, other=HARMLESS,
        summary="{who} asks for a GPU that it does not have",
        advice="Compare LOCAL_RANK with CUDA_VISIBLE_DEVICES: LOCAL_RANK counts within that list.",
    ),
    EventRow(
        event=Told("torch.cuda_error", {"signature": ("invalid_device",)}), kind="invalid_device", weight=0.9,
        other={"signature": "other"}, summary="{who} asks for a GPU that it does not have",
        advice="Compare LOCAL_RANK with CUDA_VISIBLE_DEVICES: LOCAL_RANK counts within that list.",
    ),
    EventRow(
        event=Told("nccl_tests.table"), kind="silent_corruption", weight=0.9, where=_wrong,
        example={"wrong": 3}, other={"wrong": 0}, accuses=False,
        summary="nccl-tests got {wrong} wrong elements{on}",
        advice="Data is damaged on its way: test the nodes by twos to find the GPU or link; IOMMU and ACS settings do "
        "this, too.",
    ),
)  # fmt: skip

LIBRARIES = (
    EventRow(
        event=_library("retry_exceeded"), kind="ib_retry_exceeded", weight=0.6, over=True, unless=NCCL_SAYS_WHY,
        other={"signature": "noise"}, summary="{library} got no answer from a peer ({who}): {error}",
        advice="A port, cable, switch or host on the way is dead or lossy: look at the counters of both ports.",
    ),
    EventRow(
        event=_library("memory"), kind="memlock_limit", weight=0.6, over=True, unless=NCCL_SAYS_WHY,
        other={"signature": "noise"}, summary="{library} could not register memory ({who}): {error}", advice=MEMLOCK,
    ),
    EventRow(
        event=_library("connect", "completion", "device", "queue_pair"), kind="nccl_init_failed", weight=0.6, over=True,
        unless=NCCL_SAYS_WHY, other={"signature": "noise"}, summary="{library} failed on {who}: {error}",
        advice="Is the adapter there, its driver loaded and its ports active (ibstat)? Is a firewall between "
        "the nodes, are RoCE networks routed? Else look at the kernel's log and the firmware of both adapters.",
    ),
)  # fmt: skip

GLOO = (
    EventRow(
        event=Told("gloo.connect_failed"), kind="nccl_connect_failed", weight=0.6, where=_no_peer,
        other={"peer": "10.0.0.7"}, unless=(Told("gloo.closed"),), accuses=False,
        summary="{who} could not connect to all others over gloo: nothing tells which one does not answer",
        advice="Set GLOO_SOCKET_IFNAME to the interface that all nodes share, and see that no host name stands for "
        "127.0.0.1 in /etc/hosts; a rank that never started does the same.",
    ),
    EventRow(
        event=Told("gloo.size_mismatch"), kind="collective_size_mismatch", weight=0.7, accuses=False,
        summary="{who} received a message of another size than its own tensor: ranks called one collective with "
        "different sizes",
        advice="Run once with TORCH_DISTRIBUTED_DEBUG=DETAIL: it names both ranks and both shapes.",
    ),
)  # fmt: skip

ROWS = (*NCCL, *LIBRARIES, *GLOO)
