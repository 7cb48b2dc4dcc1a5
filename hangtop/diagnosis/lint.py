"""The environment lint: settings and library versions of a job's ranks that hang or slow it.

Needs :class:`~collectors.samples.ranks.RankProcess` (``env``, ``versions``) and, to check names of interfaces, the
node's interfaces. Ranks with the same mistake share one finding. Sources of the tables: NCCL's manual (env.html, 2.30)
and source, and the headers of torch 2.13.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from hangtop.diagnosis.addresses import interface_of
from hangtop.diagnosis.finding import Evidence, Finding, Observer, Severity
from hangtop.diagnosis.job import Job, once
from hangtop.diagnosis.node import Rank
from hangtop.diagnosis.phrasing import ranks_on, ranks_text
from hangtop.diagnosis.roster import world_or_logged

INTERFACE_NAMES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
"""Variables that name network interfaces."""
ACCEPTED = {
    "NCCL_IB_TIMEOUT": (r"[1-9]|[12]\d|3[01]", "1 to 31, an exponent: 4.096 µs × 2^n; any other value never times out"),
    "NCCL_IB_RETRY_CNT": (r"[0-7]", "0 to 7"),
    "NCCL_IB_QPS_PER_CONNECTION": (r"[1-9]\d?|1[01]\d|12[0-8]", "1 to 128"),
    "NCCL_IB_GID_INDEX": (r"-1|\d{1,3}", "-1 to 255"),
}
"""Accepted values of the settings whose wrong value hangs or slows a job: a pattern, and its description."""

_ON, _ANY = r"(?i)1|true|yes|on", r"(?s).*"
_UNREAD = "neither NCCL nor torch reads it;"
_TIMEOUT = f"{_UNREAD} set timeout=… in init_process_group() and in every new_group()"
NOT_WANTED = {
    "NCCL_P2P_DISABLE": (_ON, "GPUs of a node talk through host memory instead of NVLink or PCIe"),
    "NCCL_IB_DISABLE": (_ON, "all traffic between nodes goes over TCP"),
    "NCCL_SHM_DISABLE": (_ON, "GPUs without P2P talk over the network even inside a node"),
    "NCCL_NET_GDR_LEVEL": (r"(?i)loc|0", "GPUDirect RDMA is switched off"),
    "NCCL_NVLS_ENABLE": (r"0", "NVLink SHARP is switched off"),
    "NCCL_DEBUG": (r"(?i)trace", "every call is logged"),
    "CUDA_LAUNCH_BLOCKING": (_ON, "every kernel launch waits for its end: computation and communication never overlap"),
    "TORCH_DISTRIBUTED_DEBUG": (r"(?i)detail", "every collective is preceded by a check among all ranks"),
    "TORCH_NCCL_BLOCKING_WAIT": (_ON, "wait() blocks the CPU: work is no longer queued ahead"),
    "NCCL_TIMEOUT": (_ANY, _TIMEOUT),
    "NCCL_TIMEOUT_MS": (_ANY, _TIMEOUT),
    "NCCL_HEARTBEAT_TIMEOUT": (_ANY, f"{_UNREAD} set TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"),
    "NCCL_SOCKET_TIMEOUT": (_ANY, f"{_UNREAD} set NCCL_SOCKET_RETRY_CNT and …_RETRY_SLEEP_MSEC"),
    "NCCL_PORT_RANGE": (_ANY, f"{_UNREAD} set the kernel's net.ipv4.ip_local_port_range"),
}
"""Debugging values with their cost to a job, and names that neither NCCL nor torch reads."""

MUST_AGREE = tuple(
    """
NCCL_ALGO NCCL_PROTO NCCL_BUFFSIZE NCCL_NTHREADS NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS NCCL_MIN_CTAS NCCL_MAX_CTAS
NCCL_P2P_DISABLE NCCL_P2P_LEVEL NCCL_SHM_DISABLE NCCL_IB_DISABLE NCCL_NET NCCL_NET_PLUGIN NCCL_CROSS_NIC
NCCL_CUMEM_ENABLE NCCL_NVLS_ENABLE NCCL_MNNVL_ENABLE NCCL_COLLNET_ENABLE NCCL_RUNTIME_CONNECT NCCL_P2P_NET_CHUNKSIZE
NCCL_IB_SPLIT_DATA_ON_QPS NCCL_SOCKET_FAMILY TORCH_DISTRIBUTED_DEBUG TORCH_NCCL_BLOCKING_WAIT
TORCH_NCCL_ASYNC_ERROR_HANDLING GLOO_DEVICE_TRANSPORT WORLD_SIZE MASTER_PORT TORCHELASTIC_RUN_ID
torch nccl cuda
""".split()
)
"""Settings and library versions that all ranks must share: ranks that differ truncate messages, choose different
algorithms, or wait for one another."""
FATAL_TO_DIFFER = frozenset({"WORLD_SIZE", "MASTER_PORT", "TORCH_DISTRIBUTED_DEBUG", "NCCL_NET", "nccl"})
"""Those whose mismatch keeps the ranks of a job from meeting at all."""


Release = tuple[int, int, int]
BAD_RELEASES: tuple[tuple[Release, Release, tuple[str, ...], str, str], ...] = (
    ((2, 21, 5), (2, 21, 5), ("2.3", "2.4"), "", "hangs inside one node with this torch; 2.22 does not"),
    ((2, 28, 3), (2, 28, 8), ("",), "", "crashes when a job restarts its process group in place; 2.28.9 does not"),
    ((2, 0, 0), (2, 29, 2), ("",), "aarch64", "loses an operation and spins in ncclLocalOpAppend; 2.29.3 does not"),
)  # fmt: skip
"""NCCL releases with a fault that hangs or ends jobs: first and last release, prefixes of torch's version, prefix of
the architecture, the fault. Sources: issues of pytorch and NCCL; NVIDIA's resiliency extension for 2.28."""


def wrong_settings(job: Job) -> Iterator[Finding]:
    """env_invalid and env_not_wanted, each setting by itself."""
    for (name, value), ranks in _by_setting(job).items():
        accepted, words = ACCEPTED.get(name, (_ANY, ""))
        unwanted, does = NOT_WANTED.get(name, ("(?!)", ""))
        if not re.fullmatch(accepted, value.strip()):
            text, advice = f"{name}={value} is not accepted: {words}", f"Correct {name} or remove it."
            yield _finding("env_invalid", "warning", text, ranks, (name, value), advice)
        if re.fullmatch(unwanted, value.strip()):
            uses = "your script reads it" if unwanted == _ANY else "you are debugging with it"
            advice = f"Remove {name} unless {uses}."
            yield _finding("env_not_wanted", "warning", f"{name}={value}: {does}", ranks, (name, value), advice)
        if name in INTERFACE_NAMES and not value.startswith("^"):
            yield from _interfaces(job, ranks, name, value)


@once
def _by_setting(job: Job) -> Mapping[tuple[str, str], Sequence[Rank]]:
    """Ranks by name and value of each setting and of each library's version.

    Ranks of one node share their tables, so each table is read once.
    """
    tables: dict[int, tuple[Mapping[str, str], list[Rank]]] = {}
    for rank in job.ranks:
        for table in (rank.process.env, rank.process.versions):
            tables.setdefault(id(table), (table, []))[1].append(rank)
    by_setting: dict[tuple[str, str], list[Rank]] = defaultdict(list)
    for read, ranks in tables.values():
        for pair in read.items():
            by_setting[pair] += ranks
    return {pair: sorted(ranks, key=lambda rank: rank.rank) for pair, ranks in sorted(by_setting.items())}


def _finding(
    kind: str, severity: Severity, summary: str, ranks: Sequence[Rank], setting: tuple[str, str], advice: str,
    weight: float = 0.9,
) -> Finding:  # fmt: skip
    """A finding about these ranks (at least one), with the first rank's environment as evidence."""
    return Finding(
        kind, severity, weight, summary, ranks=tuple(rank.rank for rank in ranks),
        nodes=tuple(sorted({rank.node for rank in ranks})), evidence=(_source(ranks[0], *setting),), advice=advice,
    )  # fmt: skip


def _source(rank: Rank, name: str, value: str) -> Evidence:
    return Evidence(Observer.CONTEXT, f"environment of {ranks_on([rank.rank], [rank.node])}", None, f"{name}={value}")


def _interfaces(job: Job, ranks: Sequence[Rank], name: str, value: str) -> Iterator[Finding]:
    """env_invalid: loopback although peers are or may be on other nodes; names without an interface that is up."""
    world = world_or_logged(job)
    apart = [rank for rank in ranks if world is None or world > len(job.ranks_of(rank.node))]
    if value.strip().lstrip("=") == "lo" and apart:
        text = f"{name}={value} is the loopback interface: ranks of other nodes cannot be reached through it"
        yield _finding("env_invalid", "warning", text, apart, (name, value), f"Correct {name} or remove it.")
    nodes = [job.nodes[name] for name in sorted({rank.node for rank in ranks}) if name in job.nodes]
    setting = value if name.startswith("NCCL") else "=" + value.lstrip("=")  # gloo wants whole names
    lacking = [node.name for node in nodes if interface_of(node, None) and not interface_of(node, setting)]
    if lacking:
        text = f"{name}={value} names no interface that is up on {', '.join(lacking)}"
        advice = "Set it to an interface that these nodes have (ip -br link), or remove it."
        there = [rank for rank in ranks if rank.node in lacking]
        yield _finding("env_invalid", "critical", text, there, (name, value), advice)


def mismatches(job: Job) -> Iterator[Finding]:
    """env_mismatch: ranks that must agree on a setting, or on a version of torch, NCCL or CUDA, do not."""
    by_name: dict[str, dict[str, Sequence[Rank]]] = defaultdict(dict)
    for (name, value), ranks in _by_setting(job).items():
        by_name[name][value] = ranks
    for name in MUST_AGREE:
        values = by_name[name]
        having = {rank.rank for ranks in values.values() for rank in ranks}
        # a rank whose library version is unknown may have the others' version
        if values and name.isupper() and (without := [rank for rank in job.ranks if rank.rank not in having]):
            values["(not set)"] = without
        if len(values) > 1:
            yield _odd_ones(name, values)


def _odd_ones(name: str, values: Mapping[str, Sequence[Rank]]) -> Finding:
    most_first = sorted(values.items(), key=lambda item: (len(item[1]), item[0]), reverse=True)
    odd = [rank for _, ranks in most_first[1:] for rank in ranks]
    text = "; ".join(f"{value} on {ranks_text(rank.rank for rank in ranks)}" for value, ranks in most_first)
    what = name if name.isupper() else f"the version of {name}"
    return Finding(
        "env_mismatch", "critical" if name in FATAL_TO_DIFFER else "warning", 0.9, f"ranks differ in {what}: {text}",
        ranks=tuple(sorted(rank.rank for rank in odd)), nodes=tuple(sorted({rank.node for rank in odd})),
        evidence=tuple(_source(ranks[0], name, value) for value, ranks in most_first),
        advice=f"Give every rank the same {name}: ranks that differ choose different algorithms or never meet.",
    )  # fmt: skip


def known_bad_versions(job: Job) -> Iterator[Finding]:
    """nccl_known_bad: a rank has mapped an NCCL release with a known fault (:data:`BAD_RELEASES`)."""
    machines = {name: node.hello.machine for name, node in job.nodes.items() if node.hello is not None}
    for (library, version), ranks in _by_setting(job).items():
        release = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
        for first, last, with_torch, on_machine, fault in BAD_RELEASES if library == "nccl" else ():
            hit = [
                rank for rank in ranks
                if rank.process.versions.get("torch", "").startswith(with_torch)
                and machines.get(rank.node, "").startswith(on_machine)
            ]  # fmt: skip
            if hit and first <= release <= last:
                text, advice = f"NCCL {version} {fault}", "Move to a newer release of NCCL."
                yield _finding("nccl_known_bad", "warning", text, hit, ("NCCL", version), advice, 0.6)


RULES = (mismatches, wrong_settings, known_bad_versions)
"""The rules of this lint; the verdict runs them with all others."""
