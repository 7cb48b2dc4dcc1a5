"""GPUs that are broken: lost, wedged, with memory errors, or with an error that the driver logged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from collectors.samples.gpus import GpuFault
from collectors.samples.logs import LogEvent
from hangtop.diagnosis.finding import Evidence, Finding, Severity
from hangtop.diagnosis.job import Gpu, Job, Node
from hangtop.diagnosis.phrasing import count, duration, listed, ranks_text
from hangtop.diagnosis.tables.thresholds import REMAPPED_ROWS_UNCORRECTABLE
from hangtop.diagnosis.tables.xid import xid
from hangtop.diagnosis.witnesses.devices import (
    all_gpus,
    event_line,
    events_on,
    gpu_at,
    gpu_name,
    newest,
    ranks_on_gpu,
    ranks_on_node,
)
from hangtop.diagnosis.witnesses.event_fields import number_of, text_of
from hangtop.diagnosis.witnesses.named_gpus import gpus_in

LOST_XID = 79
CONSEQUENT_XIDS = frozenset({43, 45})
EARLIER_XID = re.compile(r"caused by previous Xid (\d+)")
"""Newer drivers say which error it was that ended the channels."""
LOST_WORDS = re.compile(
    r"is lost|fallen off|unable to determine the device handle|(?<!\[)not found|requires reset", re.IGNORECASE
)
SEVERITY: dict[str, Severity] = {
    "hardware": "critical",
    "driver": "critical",
    "application": "warning",
    "consequence": "info",
    "info": "info",
}
NO_ACTION = frozenset({"none", "n/a", "unknown", "not supported"})
CROWD = 4
"""Processes a core that want to run: with more of them whatever is asked answers late."""
DRIVER_SILENCE = 10.0
"""Seconds of silence of nvidia-smi that are no slow start any more: where nothing keeps the driver loaded, every GPU
is woken up first."""
DRAIN = "Drain the node, reset the GPU or restart the node; replace the GPU if it comes again."


def gpu_lost(job: Job) -> Iterator[Finding]:
    """gpu_lost: nvidia-smi names a GPU that it cannot reach, a GPU that was listed is missing, or Xid 79.

    Needs nvidia-smi's own lines (a GpuFault) or the kernel log.
    """
    for name in sorted(job.nodes):
        node = job.nodes[name]
        lost: dict[int | None, list[Evidence]] = {}
        named: tuple[str, ...] = ()
        for gpu in node.gpus:
            if gpu.fault is not None:
                lost.setdefault(gpu.index, []).append(_fault_line(node, gpu.fault))
        if node.gpu_fault is not None and LOST_WORDS.search(node.gpu_fault.text):
            index = gpu_at(node, node.gpu_fault.bus_id)
            lost.setdefault(index, []).append(_fault_line(node, node.gpu_fault))
        for event in events_on(job, node, "kernel.xid"):
            if number_of(event, "code") == LOST_XID:
                index = gpu_at(node, text_of(event, "bus_id"))
                lost.setdefault(index, []).append(event_line(event))
                named += gpus_in(job, [event]) if index is None else ()
        for index, evidence in sorted(lost.items(), key=lambda item: -1 if item[0] is None else item[0]):
            ranks = ranks_on_gpu(job, node, index)
            used = f", which {ranks_text(ranks)} {'uses' if len(ranks) == 1 else 'use'}," if ranks else ""
            gpus = tuple(sorted(set(named))) if index is None else (f"{name}:{index}",)
            at = listed([gpu.partition(":")[2] for gpu in gpus])
            which = f"GPU {index}" if index is not None else f"the GPU at {at}" if at else "a GPU"
            yield Finding(
                "gpu_lost", "critical", 0.97 if len(evidence) > 1 else 0.93,
                f"{which} on {name}{used} is lost",
                ranks=ranks, nodes=(name,), gpus=gpus,
                evidence=tuple(evidence), advice=DRAIN,
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
        if job.now - source.since < DRIVER_SILENCE or _is_starved(node):
            continue
        yield Finding(
            "gpu_driver_hung", "critical", 0.85,
            f"nvidia-smi on {name} has not answered for {duration(max(0.0, job.now - source.since))}: the driver hangs",
            ranks=tuple(rank.rank for rank in job.ranks_of(name) if rank.gone_at is None),
            nodes=(name,),
            evidence=(Evidence(f"nvidia-smi on {name}", source.since, source.why or "no row within its deadline"),),
            advice="Look for Xid lines in the kernel log. A driver that hangs needs the node restarted.",
        )  # fmt: skip


def _is_starved(node: Node) -> bool:
    """True when it is the node that has no time, not the driver.

    Sources that ask no driver are late too, or far more processes want to run than can: those that hang in a driver
    are not among them.
    """
    crowded = node.load is not None and node.host is not None and node.load.running > CROWD * max(1, node.host.cpus)
    others = (state for name, state in node.sources.items() if name in ("ranks", "host", "network"))
    return crowded or any(state.state == "late" for state in others)


def gpu_xid(job: Job) -> Iterator[Finding]:
    """gpu_xid: Xid lines of the kernel log (79 is gpu_lost), with what they mean; 43 and 45 are consequences.

    Needs the kernel log. Live, lines from before the job's processes started are left out.
    """
    for name in sorted(job.nodes):
        node = job.nodes[name]
        codes: dict[tuple[int, str], list[Evidence]] = {}
        for event in events_on(job, node, "kernel.xid"):
            code = number_of(event, "code")
            before = EARLIER_XID.search(text_of(event, "detail"))
            if code in CONSEQUENT_XIDS and before is not None:
                code = int(before.group(1))
            if code is not None and code != LOST_XID:
                codes.setdefault((code, text_of(event, "bus_id")), []).append(event_line(event))
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


def gpu_ecc(job: Job) -> Iterator[Finding]:
    """gpu_ecc: uncorrectable errors counted since the driver was loaded; those that come while watched are critical.

    Needs the ECC columns of nvidia-smi. Corrected errors are no fault.
    """
    for node, gpu, at, sample in newest(job):
        if not sample.ecc_uncorrected and not sample.sram_threshold_exceeded:
            continue
        grown = (sample.ecc_uncorrected or 0) - (gpu.looks[0].value.ecc_uncorrected or 0)
        text = f"{sample.ecc_uncorrected} uncorrected" + (f", {grown} of them while watched" if grown else "")
        if sample.sram_threshold_exceeded:
            text += ", SRAM threshold exceeded"
        severe = bool(grown or sample.sram_threshold_exceeded)
        yield _of_gpu(
            job, node, gpu, "gpu_ecc", "critical" if severe else "warning", 0.9 if severe else 0.6,
            f"has uncorrectable memory errors: {text}",
            Evidence(f"nvidia-smi on {node.name}", at, f"ecc.errors.uncorrected.volatile {sample.ecc_uncorrected}"),
        )  # fmt: skip


def gpu_row_remap(job: Job) -> Iterator[Finding]:
    """gpu_row_remap: a remap of memory rows is pending or failed, or too many rows are remapped.

    Needs the remapped_rows columns of nvidia-smi. Remaps that worked are no fault.
    """
    for node, gpu, at, sample in newest(job):
        wrong = []
        if sample.remap_failure:
            wrong.append("a row could not be remapped")
        if sample.remap_pending:
            wrong.append("a remap waits for a reset")
        if (sample.remapped_uncorrectable or 0) > REMAPPED_ROWS_UNCORRECTABLE:
            wrong.append(f"{sample.remapped_uncorrectable} rows are remapped")
        if wrong:
            yield _of_gpu(
                job, node, gpu, "gpu_row_remap", "critical" if sample.remap_failure else "warning", 0.9,
                f"has memory rows to remap: {listed(wrong)}",
                Evidence(f"nvidia-smi on {node.name}", at, f"remapped_rows: {listed(wrong)}"),
            )  # fmt: skip


def gpu_needs_reset(job: Job) -> Iterator[Finding]:
    """gpu_needs_reset: the driver itself recommends an action for this GPU.

    Needs the column gpu_recovery_action of nvidia-smi (driver 560 or newer).
    """
    for node, gpu, at, sample in newest(job):
        action = sample.recovery_action.strip()
        if action and action.strip("[]").lower() not in NO_ACTION:
            yield _of_gpu(
                job, node, gpu, "gpu_needs_reset", "warning", 0.85, f"is to be recovered, says the driver: {action}",
                Evidence(f"nvidia-smi on {node.name}", at, f"gpu_recovery_action {action}"),
            )  # fmt: skip


def nvlink_errors(job: Job) -> Iterator[Finding]:
    """nvlink_errors: replay, recovery or CRC counters grew while watched, or a link is down, and others of its node up.

    Needs NVLink counters at two times, or the states of links.
    """
    joined = {node.name for node, gpu in all_gpus(job) if any(link.active for link in gpu.nvlinks)}
    for node, gpu in all_gpus(job):
        if not gpu.nvlinks and not gpu.nvlink_grown:
            continue
        grown = {
            link: {name: number for name, number in counters.items() if number > 0}
            for link, counters in gpu.nvlink_grown.items()
        }
        bad = {link: counters for link, counters in sorted(grown.items()) if counters}
        down = [link.link for link in gpu.nvlinks if not link.active and node.name in joined]
        if not bad and not down:
            continue
        words = [f"link {link}: {listed([f'{n} +{v}' for n, v in counters.items()])}" for link, counters in bad.items()]
        words += [f"link {link} is down" for link in down]
        yield Finding(
            "nvlink_errors", "warning", 0.85 if bad else 0.6,
            f"NVLink errors on GPU {gpu.index} of {node.name}: {listed(words)}",
            ranks=ranks_on_gpu(job, node, gpu.index), nodes=(node.name,), gpus=(f"{node.name}:{gpu.index}",),
            evidence=(Evidence(f"NVML on {node.name}", job.now, listed(words, most=8)),),
            advice="Drain the node and reset all GPUs of the NVLink domain; errors that come again are hardware.",
        )  # fmt: skip


def nvlinks_down(job: Job) -> Iterator[Finding]:
    """nvlink_errors, information: of no GPU of a node any NVLink is up. Broken, or cards that are joined by none.

    Needs the states of links.
    """
    for name in sorted(job.nodes):
        links = [link for gpu in job.nodes[name].gpus for link in gpu.nvlinks]
        if links and not any(link.active for link in links):
            text = f"all {count(len(links), 'NVLink')} of {count(len({link.gpu for link in links}), 'GPU')} are down"
            yield Finding(
                "nvlink_errors", "info", 0.4, f"{text} on {name}", ranks=ranks_on_node(job, name), nodes=(name,),
                evidence=(Evidence(f"NVLinks of {name}", job.now, text),),
                advice="On SXM boards this is a fault: look at the fabric manager and at dmesg. Of PCIe cards without "
                "a bridge nothing else is to be expected.",
            )  # fmt: skip


def nvswitch(job: Job) -> Iterator[Finding]:
    """nvlink_errors of a switch: SXid lines and the fabric manager's, the fatal ones.

    Needs the kernel log or the fabric manager's.
    """
    for name in sorted(job.nodes):
        fatal = [
            event
            for kind in ("kernel.sxid", "kernel.fabric_manager")
            for event in events_on(job, job.nodes[name], kind)
            if event.data.get("fatal") is True
        ]
        if fatal:
            yield Finding(
                "nvlink_errors", "critical", 0.9,
                f"{_reporter(fatal, name)} reported {count(len(fatal), 'fatal error')}",
                ranks=ranks_on_node(job, name), nodes=(name,),
                evidence=tuple(event_line(event) for event in fatal[:4]),
                advice="Drain the node; restart it and its fabric manager.",
            )  # fmt: skip


def _reporter(fatal: Sequence[LogEvent], name: str) -> str:
    """Who told of fatal errors: the fabric manager tells of GPUs' links, too."""
    of_gpus = all(event.data.get("what") == "gpu" for event in fatal)
    return f"{name}'s fabric manager, of NVLinks of GPUs," if of_gpus else f"an NVSwitch of {name}"


def _fault_line(node: Node, fault: GpuFault) -> Evidence:
    return Evidence(f"nvidia-smi on {node.name}", None, fault.text)


def _of_gpu(
    job: Job, node: Node, gpu: Gpu, kind: str, severity: Severity, weight: float, text: str, proof: Evidence
) -> Finding:
    return Finding(
        kind,
        severity,
        weight,
        f"GPU {gpu.index} on {node.name} {text}",
        ranks=ranks_on_gpu(job, node, gpu.index),
        nodes=(node.name,),
        gpus=(gpu_name(node, gpu),),
        evidence=(proof,),
        advice=DRAIN,
    )
