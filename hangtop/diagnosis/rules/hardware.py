"""GPUs that are broken: lost, wedged, with memory errors, or with an error that the driver or CUDA tells."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from collectors.samples.gpus import GpuSample
from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.devices import gpu_at, gpu_name, gpus_in, newest, ranks_on_gpu
from hangtop.diagnosis.evidence.event_fields import number_of, text_of
from hangtop.diagnosis.evidence.events import event_line, events_on, hosts_in, lines, ranks_in, said
from hangtop.diagnosis.failures.record import cuda_error
from hangtop.diagnosis.finding import Evidence, Finding, Severity
from hangtop.diagnosis.job import Gpu, Job, Node
from hangtop.diagnosis.phrasing import duration, listed, ranks_text, who
from hangtop.diagnosis.tables.thresholds import REMAPPED_ROWS_UNCORRECTABLE
from hangtop.diagnosis.tables.xid import xid

LOST_XID = 79
CONSEQUENT_XIDS = frozenset({43, 45})
EARLIER_XID = re.compile(r"caused by previous Xid (\d+)")
"""Newer drivers say which error it was that ended the channels."""
LOST_WORDS = re.compile(
    r"is lost|fallen off|unable to determine the device handle|(?<!\[)not found|requires reset", re.IGNORECASE
)
SEVERITY: dict[str, Severity] = {
    "hardware": "critical", "driver": "critical", "application": "warning", "consequence": "info", "info": "info",
}  # fmt: skip
"""Of Xids, by their kind."""
NO_ACTION = frozenset({"", "none", "n/a", "unknown", "not supported"})
CROWD = 4
"""Processes a core that want to run: with more of them whatever is asked answers late."""
DRIVER_SILENCE = 10.0
"""Seconds of silence of nvidia-smi that are no slow start any more: where nothing keeps the driver loaded, every GPU
is woken up first."""
DRAIN = "Drain the node, reset the GPU or restart the node; replace the GPU if it comes again."
FABRIC = (
    "The NVLink fabric is not up: look at Fabric Manager and IMEX on the node; their versions must be the driver's."
)
CUDA_HARDWARE: tuple[tuple[str, re.Pattern[str], str], ...] = (
    ("nvlink_fabric_down", re.compile(r"system not yet initialized|\berror 802\b", re.IGNORECASE), FABRIC),
    ("nvlink_errors", re.compile(r"nvlink", re.IGNORECASE), DRAIN),
    ("gpu_ecc", re.compile(r"uncorrectable|\becc\b", re.IGNORECASE), DRAIN),
    ("gpu_lost", re.compile(r"gpu is lost|fallen off|unrecoverable|device\b.*\blost|gpu hang", re.IGNORECASE), DRAIN),
)
"""Words of CUDA's errors that no program can cause (cudaErrorECCUncorrectable, cudaErrorSystemNotReady …)."""
TELL_CUDA_ERRORS = (
    "torch.cuda_error", "torch.watchdog_error", "nccl.warn", "python.exception", "process.signal", "nccl_tests.failed",
)  # fmt: skip


def on_gpu(
    job: Job, node: Node, gpu: Gpu, kind: str, severity: Severity, weight: float, text: str, proof: Evidence,
    advice: str = DRAIN,
) -> Finding:  # fmt: skip
    """A finding about one GPU; ``text`` goes on after ``GPU 3 on node4``."""
    return Finding(
        kind, severity, weight, f"GPU {gpu.index} on {node.name} {text}",
        ranks=ranks_on_gpu(job, node, gpu.index), nodes=(node.name,), gpus=(gpu_name(node, gpu),), evidence=(proof,),
        advice=advice,
    )  # fmt: skip


def gpu_lost(job: Job) -> Iterator[Finding]:
    """gpu_lost: nvidia-smi names a GPU that it cannot reach, a GPU that was listed is missing, or Xid 79.

    Needs nvidia-smi's own lines (a GpuFault) or the kernel log.
    """
    for name in sorted(job.nodes):
        node = job.nodes[name]
        lost: dict[str, list[Evidence]] = defaultdict(list)
        for gpu in node.gpus:
            if gpu.fault is not None:
                lost[gpu_name(node, gpu)].append(Evidence(f"nvidia-smi on {name}", None, gpu.fault.text))
        if node.gpu_fault is not None and LOST_WORDS.search(node.gpu_fault.text):
            index = gpu_at(node, node.gpu_fault.bus_id)
            where = "" if index is None else f"{name}:{index}"
            lost[where].append(Evidence(f"nvidia-smi on {name}", None, node.gpu_fault.text))
        for event in events_on(job, node, "kernel.xid"):
            if number_of(event, "code") == LOST_XID:
                lost[next(iter(gpus_in(job, [event])), "")].append(event_line(event))
        for where, evidence in sorted(lost.items()):
            number = where.removeprefix(f"{name}:")
            ranks = ranks_on_gpu(job, node, int(number)) if number.isdecimal() else ()
            used = f", which {ranks_text(ranks)} {'uses' if len(ranks) == 1 else 'use'}," if ranks else ""
            yield Finding(
                "gpu_lost", "critical", 0.97 if len(evidence) > 1 else 0.93,
                f"{f'GPU {number}' if where else 'a GPU'} on {name}{used} is lost",
                ranks=ranks, nodes=(name,), gpus=(where,) if where else (), evidence=tuple(evidence), advice=DRAIN,
            )  # fmt: skip


def gpu_driver_hung(job: Job) -> Iterator[Finding]:
    """gpu_driver_hung: nvidia-smi has said nothing for ten seconds while the node itself answers.

    Needs the state of the source ``gpus``; no row from a node that is out of reach says nothing, nor from one on which
    everything is late.
    """
    for name in sorted(job.nodes):
        node = job.nodes[name]
        source = node.sources.get("gpus")
        if source is None or source.state != "late" or node.link not in ("live", "limited"):
            continue
        silence = job.now - source.since
        if silence < DRIVER_SILENCE or _is_starved(node):
            continue
        yield Finding(
            "gpu_driver_hung", "critical", 0.85,
            f"nvidia-smi on {name} has not answered for {duration(silence)}: the driver hangs",
            ranks=tuple(rank.rank for rank in job.ranks_of(name) if rank.gone_at is None), nodes=(name,),
            evidence=(Evidence(f"nvidia-smi on {name}", source.since, source.why or "no row within its deadline"),),
            advice="Look for Xid lines in the kernel log. A driver that hangs needs the node restarted.",
        )  # fmt: skip


def _is_starved(node: Node) -> bool:
    """The node has no time: sources that ask no driver are late too, or far more processes want to run than can."""
    crowded = node.load is not None and node.host is not None and node.load.running > CROWD * max(1, node.host.cpus)
    return crowded or any(
        node.sources[name].state == "late" for name in ("ranks", "host", "network") if name in node.sources
    )


def gpu_xid(job: Job) -> Iterator[Finding]:
    """gpu_xid: Xid lines of the kernel log (79 is gpu_lost), with what they mean; 43 and 45 are consequences.

    Needs the kernel log. Live, lines from before the job's processes started are left out.
    """
    for name in sorted(job.nodes):
        node = job.nodes[name]
        codes: dict[tuple[int, str], list[Evidence]] = defaultdict(list)
        for event in events_on(job, node, "kernel.xid"):
            code, before = number_of(event, "code"), EARLIER_XID.search(text_of(event, "detail"))
            if code in CONSEQUENT_XIDS and before is not None:
                code = int(before.group(1))
            if code is not None and code != LOST_XID:
                codes[code, text_of(event, "bus_id")].append(event_line(event))
        for (code, bus_id), evidence in sorted(codes.items()):
            meaning, index = xid(code), gpu_at(node, bus_id)
            where = f"GPU {index}" if index is not None else f"GPU at {bus_id or 'an unknown address'}"
            yield Finding(
                "gpu_xid", SEVERITY[meaning.kind], 0.9 if meaning.kind in ("hardware", "driver") else 0.6,
                f"Xid {code} on {where} of {name}: {meaning.meaning}",
                ranks=ranks_on_gpu(job, node, index), nodes=(name,),
                gpus=(f"{name}:{bus_id if index is None else index}",) if bus_id else (),
                evidence=tuple(evidence[:4]), advice=meaning.action,
            )  # fmt: skip


class SampleFault(NamedTuple):
    """A fault that one row of nvidia-smi tells: the kind, and what to read of the newest and the oldest sample."""

    kind: str
    words: Callable[[GpuSample, GpuSample], str]
    """What is wrong; empty for nothing."""
    critical: Callable[[GpuSample, GpuSample], bool]
    column: str
    text: str


def _ecc(now: GpuSample, first: GpuSample) -> str:
    grown = _grown(now, first)
    words = [
        *([f"{now.ecc_uncorrected} uncorrected"] if now.ecc_uncorrected else []),
        *([f"{grown} of them while watched"] if grown else []),
        *(["SRAM threshold exceeded"] if now.sram_threshold_exceeded else []),
    ]
    return ", ".join(words)


def _grown(now: GpuSample, first: GpuSample) -> int:
    return (now.ecc_uncorrected or 0) - (first.ecc_uncorrected or 0)


def _rows(now: GpuSample, _: GpuSample) -> str:
    many = (now.remapped_uncorrectable or 0) > REMAPPED_ROWS_UNCORRECTABLE
    return listed([
        *(["a row could not be remapped"] if now.remap_failure else []),
        *(["a remap waits for a reset"] if now.remap_pending else []),
        *([f"{now.remapped_uncorrectable} rows are remapped"] if many else []),
    ])  # fmt: skip


def _action(now: GpuSample, _: GpuSample) -> str:
    action = now.recovery_action.strip()
    return "" if action.strip("[]").lower() in NO_ACTION else action


SAMPLE_FAULTS = (
    SampleFault("gpu_ecc", _ecc, lambda now, first: bool(_grown(now, first) or now.sram_threshold_exceeded),
                "ecc.errors.uncorrected.volatile", "has uncorrectable memory errors"),
    SampleFault("gpu_row_remap", _rows, lambda now, _: bool(now.remap_failure), "remapped_rows",
                "has memory rows to remap"),
    SampleFault("gpu_needs_reset", _action, lambda *_: False, "gpu_recovery_action",
                "is to be recovered, says the driver"),
)  # fmt: skip


def gpu_memory_errors(job: Job) -> Iterator[Finding]:
    """gpu_ecc, gpu_row_remap, gpu_needs_reset: by nvidia-smi's columns of errors, remapped rows and what it recommends.

    Corrected errors and remaps that worked are no fault. Uncorrected errors count since the driver was loaded: those
    that come while the job is watched are critical. Needs driver 560 for the recommended action.
    """
    for node, gpu, at, sample in newest(job):
        first = gpu.looks[0].value
        for fault in SAMPLE_FAULTS:
            if words := fault.words(sample, first):
                critical = fault.critical(sample, first)
                proof = Evidence(f"nvidia-smi on {node.name}", at, f"{fault.column}: {words}")
                weight = (
                    0.85 if fault.kind == "gpu_needs_reset" else 0.9 if critical or fault.kind != "gpu_ecc" else 0.6
                )
                yield on_gpu(job, node, gpu, fault.kind, "critical" if critical else "warning",
                              weight, f"{fault.text}: {words}", proof)  # fmt: skip


def cuda_hardware(job: Job) -> Iterator[Finding]:
    """gpu_ecc, gpu_lost, nvlink_errors and nvlink_fabric_down by CUDA's own errors, whatever prints them.

    Needs torch's, NCCL's or an exception's words; which GPU it was, the kernel log and nvidia-smi tell. NCCL's failure
    to bind NVLS memory (CUDA error 401) is the fabric's, too.
    """
    found: dict[str, list[LogEvent]] = defaultdict(list)
    for event in (event for kind in TELL_CUDA_ERRORS for event in said(job, kind)):
        nvls = text_of(event, "signature") == "nvls" and "401" in event.text
        if kind := "nvlink_fabric_down" if nvls else hardware_kind(_cuda_error(event)):
            found[kind].append(event)
    advice = {kind: text for kind, _, text in CUDA_HARDWARE}
    for kind, events in sorted(found.items()):
        told = _cuda_error(events[0]).removeprefix("CUDA error: ") or "NVLink SHARP memory cannot be bound (error 401)"
        yield Finding(
            kind, "critical", 0.9, f"CUDA told {who(ranks_in(events))}: {told}",
            ranks=ranks_in(events), nodes=hosts_in(job, events), gpus=gpus_in(job, events), evidence=lines(events),
            advice=advice[kind],
        )  # fmt: skip


def hardware_kind(error: str) -> str:
    """The kind of finding that an error of CUDA proves by itself; empty where the program may be to blame."""
    if "cuda" not in error.lower():
        return ""
    return next((kind for kind, pattern, _ in CUDA_HARDWARE if pattern.search(error)), "")


def _cuda_error(event: LogEvent) -> str:
    """What an event says of an error of CUDA, with that word in front."""
    if event.kind == "python.exception":
        return text_of(event, "message") if text_of(event, "signature") == "cuda" else ""
    if event.kind == "process.signal":
        error = text_of(event, "what").partition("CUDA error: ")[2].partition("\n")[0]
    elif event.kind == "nccl_tests.failed":
        error = text_of(event, "error") if text_of(event, "what") == "CUDA" else ""
    else:
        error = cuda_error(event)
    return f"CUDA error: {error}" if error else ""
