"""GPUs and NVLinks that are lost, wedged, failing or slow, by nvidia-smi, NVML and the kernel's log."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from statistics import median

from collectors.samples.gpus import GpuSample, NvlinkCounters
from collectors.samples.host import Reading
from hangtop.diagnosis.evidence.event_fields import number_of
from hangtop.diagnosis.evidence.events import event_line, events_on
from hangtop.diagnosis.evidence.gpus import all_gpus, gpu_at, ranks_on_gpu, seen_gpus
from hangtop.diagnosis.finding import Evidence, Finding, Observer, Severity
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Gpu, Node
from hangtop.diagnosis.phrasing import duration, folded, listed
from hangtop.diagnosis.roster import ranks_on_node
from hangtop.diagnosis.rules.engine import gpu_of
from hangtop.diagnosis.series import Timed
from hangtop.diagnosis.tables.thresholds import BAD_BITS, BAD_EVENT_REASONS, LATE_SAMPLES
from hangtop.diagnosis.tables.xid import UNKNOWN, XIDS

LOAD_UTILIZATION = 50
"""Per cent. Clocks and PCIe generation fall at idle by design; they are judged under load alone (nvidia-smi manual)."""
SLOW_CLOCK_SHARE = 0.92
"""Ours: SM clock under this share of the median of its peers. Boost clocks of equal GPUs differ by 1 to 3 %."""
LOW_CLOCK_SHARE = 0.75
"""Ours: SM clock under this share of the GPU's own maximum; power caps alone take 10 to 20 %."""
REMAPPED_ROWS_UNCORRECTABLE = 512
"""Azure HPC node health checks: fail above."""
LOST_XID = 79
LOST_WORDS = re.compile(
    r"is lost|fallen off|unable to determine the device handle|(?<!\[)not found|requires reset", re.IGNORECASE
)
SEVERITY: dict[str, Severity] = {
    "hardware": "critical", "driver": "critical", "application": "warning", "consequence": "info", "info": "info",
}  # fmt: skip
"""Severity of an Xid, by its kind."""
NO_ACTION = frozenset({"", "none", "n/a", "unknown", "not supported"})
DRIVER_SILENCE_S = 10.0
"""Ours: without persistence mode nvidia-smi wakes every GPU up first, which takes seconds."""
NVLINK_ERRORS = ("replay_errors", "recovery_errors", "crc_errors")
LAST_SAMPLES = 8
"""Number of last samples that count for a slow GPU: a problem that is over is not reported."""
SETTLES_S = 60.0
"""Ours: Fabric Manager trains the links of eight GPUs in half a minute."""
PENDING = ("Not Started", "In Progress")
WELL = ("Success", "", "N/A", "[N/A]")
SICK = ("Unhealthy", "Limited Capacity")
FABRIC_UP = (
    "CUDA fails with error 802 until the fabric is up: see /var/log/fabricmanager.log and nvidia-imex.log; versions of "
    "Fabric Manager and IMEX must be the driver's."
)
DRAIN = "Drain the node, reset the GPU or restart the node; replace the GPU if it comes again."


def on_gpu(job: Job, node: Node, gpu: Gpu, kind: str, severity: Severity, weight: float, text: str, proof: Evidence,
           advice: str = DRAIN) -> Finding:  # fmt: skip
    """A finding about one GPU; ``text`` follows ``GPU 3 on node4``."""
    return Finding(
        kind, severity, weight, f"GPU {gpu.index} on {node.name} {text}",
        ranks=ranks_on_gpu(job, node, gpu.index), nodes=(node.name,), gpus=(f"{node.name}:{gpu.index}",),
        evidence=(proof,), advice=advice,
    )  # fmt: skip


def gpu_xid(job: Job) -> Iterator[Finding]:
    """gpu_lost: nvidia-smi cannot reach a GPU, or the kernel reports Xid 79; gpu_xid: any other Xid, by meaning.

    A consequence is a warning about the rank whose process it names, once that process has ended.
    """
    for name, node in sorted(job.nodes.items()):
        reports: dict[tuple[int, str], list[Evidence]] = defaultdict(list)
        ended = {rank.process.pid: rank.rank for rank in job.ranks_of(name) if rank.gone_at is not None}
        victims: dict[tuple[int, str], set[int]] = defaultdict(set)
        faults: list[tuple[int | None, str]] = [(gpu.index, gpu.fault.text) for gpu in node.gpus.values() if gpu.fault]
        if node.gpu_fault is not None and LOST_WORDS.search(node.gpu_fault.text):
            faults.append((gpu_at(node, node.gpu_fault.bus_id), node.gpu_fault.text))
        for gpu, text in faults:
            reports[LOST_XID, "" if gpu is None else str(gpu)].append(
                Evidence(Observer.GPU, f"nvidia-smi on {name}", None, text)
            )
        for event in events_on(job, node, "kernel.xid"):
            if (code := number_of(event, "code")) is not None:
                reports[code, gpu_of(node, event)].append(event_line(event))
                if (pid := number_of(event, "pid")) in ended and XIDS.get(code, UNKNOWN).kind == "consequence":
                    victims[code, gpu_of(node, event)].add(ended[pid])
        for (code, where), evidence in sorted(reports.items(), key=str):
            gpu_text, meaning, lost = f"GPU {where}" if where else "a GPU", XIDS.get(code, UNKNOWN), code == LOST_XID
            on_it = ranks_on_gpu(job, node, int(where)) if where.isdecimal() else ()
            yield Finding(
                "gpu_lost" if lost else "gpu_xid",
                "critical" if lost else "warning" if victims[code, where] else SEVERITY[meaning.kind],
                0.95 if lost else 0.9 if meaning.kind in ("hardware", "driver") else 0.6,
                f"{gpu_text} on {name} is lost" if lost else f"Xid {code} on {gpu_text} of {name}: {meaning.meaning}",
                ranks=tuple(sorted(victims[code, where])) or on_it, nodes=(name,),
                gpus=(f"{name}:{where}",) if where else (),
                evidence=tuple(evidence[:4]), advice=DRAIN if lost else meaning.action,
            )  # fmt: skip


def gpu_driver_hung(job: Job) -> Iterator[Finding]:
    """gpu_driver_hung: nvidia-smi has been silent for ten seconds while the node and its other sources answer."""
    for name, node in sorted(job.nodes.items()):
        source = node.sources.get("gpus")
        others_late = any(node.sources[s].state == "late" for s in ("ranks", "host", "network") if s in node.sources)
        if source is None or source.state != "late" or not node.connected or others_late:
            continue
        if job.now - source.since >= DRIVER_SILENCE_S:
            silence = f"nvidia-smi on {name} has not answered for {duration(job.now - source.since)}"
            yield Finding(
                "gpu_driver_hung", "critical", 0.85, f"{silence}: the driver hangs",
                ranks=tuple(rank.rank for rank in job.ranks_of(name) if rank.gone_at is None), nodes=(name,),
                evidence=(Evidence(Observer.GPU, f"nvidia-smi on {name}", source.since, source.why or silence),),
                advice="Look for Xid lines in the kernel log. A driver that hangs needs the node restarted.",
            )  # fmt: skip


def gpu_memory_errors(job: Job) -> Iterator[Finding]:
    """gpu_ecc: critical if uncorrected errors grew, SRAM errors pass their threshold, or a row remap failed."""
    for node, gpu in seen_gpus(job):
        at, now = gpu.samples[-1]
        total, rows, action = now.ecc_uncorrected or 0, now.remapped_uncorrectable or 0, now.recovery_action.strip()
        grown = max(0, total - (total if gpu.ecc_first is None else gpu.ecc_first))
        worse = bool(grown or now.sram_threshold_exceeded or now.remap_failure)
        faults = {
            f"has {total} uncorrectable memory errors, {grown} of them during the watch": bool(total or grown),
            "has more SRAM errors than its threshold allows": bool(now.sram_threshold_exceeded),
            "has a memory row that could not be remapped": bool(now.remap_failure),
            f"has {rows} remapped memory rows": rows > REMAPPED_ROWS_UNCORRECTABLE,
            "has memory rows to remap at its next reset": bool(now.remap_pending),
            f"needs recovery according to the driver: {action}": action.strip("[]").lower() not in NO_ACTION,
        }
        if text := listed([text for text, wrong in faults.items() if wrong]):
            proof = Evidence(Observer.GPU, f"nvidia-smi on {node.name}", at, f"GPU {gpu.index} {text}")
            severity: Severity = "critical" if worse else "warning"
            yield on_gpu(job, node, gpu, "gpu_ecc", severity, 0.9 if worse else 0.6, text, proof)


# --- slow GPUs ---------------------------------------------------------------------------------------------------


def gpu_throttled(job: Job) -> Iterator[Finding]:
    """gpu_throttled: under load, a bad event reason in at least half of the samples, and a low SM clock.

    Low is under that of its peers, or far under the GPU's own maximum: a power brake may slow all peers of a rack.
    """
    loaded = [
        (node, gpu, gpu.facts, samples) for node, gpu in seen_gpus(job) if gpu.facts and (samples := _under_load(gpu))
    ]
    clocks: dict[str, list[float]] = defaultdict(list)
    for _, _, facts, samples in loaded:
        clocks[facts.name].append(_clock(samples))
    for node, gpu, facts, samples in loaded:
        bad = [sample for sample in samples if (sample.value.event_reasons or 0) & BAD_BITS]
        if len(bad) < LATE_SAMPLES or len(bad) * 2 < len(samples):
            continue
        clock, usual, last, top = _clock(bad), median(clocks[facts.name]), bad[-1].value, facts.sm_clock_max or 0
        if 0 < clock < max(SLOW_CLOCK_SHARE * usual, LOW_CLOCK_SHARE * top):
            than = [f"its peers at {usual:.0f}"] if len(clocks[facts.name]) > 1 else []
            than += [f"its maximum is {top}"] if top else []
            reasons = listed([text for bit, text in BAD_EVENT_REASONS.items() if (last.event_reasons or 0) & bit])
            proof = f"GPU {gpu.index}: {last.utilization} %, {last.sm_clock} MHz, {last.power} W, {last.temperature} °C"
            yield on_gpu(
                job, node, gpu, "gpu_throttled", "warning", 0.85,
                f"runs at {clock:.0f} MHz, {', '.join(than)}: {reasons}",
                Evidence(Observer.GPU, f"nvidia-smi on {node.name}", bad[-1].at, proof),
                "All ranks wait for the slowest GPU: check its cooling, power supply and cap; move the job off it.",
            )  # fmt: skip


def gpu_pcie_degraded(job: Job) -> Iterator[Finding]:
    """gpu_pcie_degraded: link generation or width under its maximum in every sample under load."""
    for node, gpu in seen_gpus(job):
        samples, facts = _under_load(gpu), gpu.facts
        if facts is None or len(samples) < LATE_SAMPLES:
            continue
        links = (
            ("generation", max(sample.value.pcie_gen or 0 for sample in samples), facts.pcie_gen_max),
            ("width", max(sample.value.pcie_width or 0 for sample in samples), facts.pcie_width_max),
        )
        if wrong := listed([f"{what} {value} of {most}" for what, value, most in links if most and 0 < value < most]):
            yield on_gpu(
                job, node, gpu, "gpu_pcie_degraded", "warning", 0.8, f"has a slow PCIe link under load: {wrong}",
                Evidence(Observer.GPU, f"nvidia-smi on {node.name}", samples[-1].at, f"PCIe {wrong}"),
                "Reseat the card or its riser; compare with the other nodes: a slot may be built that way.",
            )  # fmt: skip


def _under_load(gpu: Gpu) -> list[Timed[GpuSample]]:
    """The last samples of a GPU that were taken under load."""
    return [sample for sample in gpu.samples[-LAST_SAMPLES:] if (sample.value.utilization or 0) >= LOAD_UTILIZATION]


def _clock(samples: Iterable[Timed[GpuSample]]) -> float:
    return median([sample.value.sm_clock or 0 for sample in samples])


# --- NVLink ----------------------------------------------------------------------------------------------------------


def nvlink_errors(job: Job) -> Iterator[Finding]:
    """nvlink_errors: error counters of a link grew while it was watched, or it is down while others of its node are up.

    Without any link up on a node, no link counts as down: cards without a bridge look the same as broken ones.
    """
    joined = {node.name for node, gpu in all_gpus(job) if any(link.active for link in gpu.nvlinks.values())}
    for node, gpu in all_gpus(job):
        grown = [
            f"link {link}: {listed(errors)}"
            for link, newest in sorted(gpu.nvlinks.items())
            if (errors := _more_errors(gpu.nvlinks_first[link], newest))
        ]
        unlinked = [nvlink.link for nvlink in gpu.nvlinks.values() if not nvlink.active and node.name in joined]
        if wrong := [*grown, *(f"link {link} is down" for link in unlinked)]:
            yield on_gpu(
                job, node, gpu, "nvlink_errors", "warning", 0.85 if grown else 0.6,
                f"has NVLink errors: {listed(wrong)}",
                Evidence(Observer.GPU, f"NVML on {node.name}", job.now, listed(wrong, most=8)),
                "Drain the node and reset all GPUs of the NVLink domain; errors that come again are hardware.",
            )  # fmt: skip


def _more_errors(first: NvlinkCounters, newest: NvlinkCounters) -> list[str]:
    """``replay_errors +5``."""
    counts = ((name, getattr(first, name), getattr(newest, name)) for name in NVLINK_ERRORS)
    return [f"{name} +{now - was}" for name, was, now in counts if None not in (was, now) and now > was]


def fabric_down(job: Job) -> Iterator[Finding]:
    """nvlink_fabric_down: GPUs with a bad fabric state, or a daemon that is down while devices need it.

    The daemons are Fabric Manager, which NVSwitches need, and IMEX, which IMEX channels need. Running jobs continue
    without them, but nothing new can start.
    """
    for name, node in sorted(job.nodes.items()):
        readings = node.readings_of("nvlink")
        bad = [(at, unit) for at, unit in readings if _is_bad(unit, job.now - at)]
        down = [unit for _, unit in readings if unit.values.get("state") == "down" and unit.values.get("needed")]
        texts = [f"{u.of} is down ({u.values.get('said')}) where {u.values['needed']} needs it" for u in down]
        proof = [Evidence(Observer.PROCESS, f"services of {name}", None, text) for text in texts]
        proof += [Evidence(Observer.GPU, "nvidia-smi", at, f"{u.of}: {u.values['state']}") for at, u in bad[:4]]
        gpus = [gpu for _, unit in bad if isinstance(gpu := unit.values.get("gpu"), int)]
        if bad:
            first, which = bad[0][1].values, f"GPU {gpus[0]} is" if len(gpus) == 1 else f"GPUs {folded(gpus)} are"
            state = f"{first['state']}, status {first.get('status')}, health {first.get('health') or 'not told'}"
            texts.insert(0, f"{which} not well in the NVLink fabric: {state}")
        joining = any(unit.values.get("state") in PENDING for _, unit in readings)  # may need no daemon yet
        if bad or (down and not joining):
            starts = any(u.values["state"] in PENDING or u.values.get("health") not in SICK for _, u in bad[:1])
            yield Finding(
                "nvlink_fabric_down", "critical" if starts else "warning", 0.8, f"{name}: {', and '.join(texts)}",
                ranks=tuple(sorted({rank for gpu in gpus for rank in ranks_on_gpu(job, node, gpu)}))
                or ranks_on_node(job, name),
                nodes=(name,), gpus=tuple(f"{name}:{gpu}" for gpu in gpus), evidence=tuple(proof),
                advice=f"Drain the node. {FABRIC_UP}" + "".join(f" systemctl restart {unit.of}." for unit in down[:1]),
            )  # fmt: skip


def _is_bad(reading: Reading, seconds: float) -> bool:
    """Whether a GPU is not well in its NVLink fabric after so many seconds in this state: joining takes time."""
    state, status, health = (reading.values.get(name, "") for name in ("state", "status", "health"))
    if state in PENDING:
        return seconds > SETTLES_S
    return health in SICK or (state == "Completed" and status not in WELL)


RULES = (
    gpu_driver_hung, gpu_xid, gpu_memory_errors, gpu_throttled, gpu_pcie_degraded, nvlink_errors, fabric_down,
)  # fmt: skip
