"""The environment lint: what the settings and versions of a job's ranks get wrong.

Needs :class:`~collectors.samples.ranks.RankProcess` (``env``, ``versions``), and, where names of interfaces and
adapters are judged, the node's interfaces and ports. Ranks with the same mistake share one finding.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from collectors.samples.ranks import RankProcess
from hangtop.diagnosis.environment.settings import FATAL_TO_DIFFER, MUST_AGREE, SettingFault, faults_of
from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.job import Job, Node, Rank
from hangtop.diagnosis.phrasing import rank_text, ranks_on
from hangtop.diagnosis.roster import world_or_logged

INTERFACE_NAMES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME")
"""Variables that name network interfaces."""


class BadRelease(NamedTuple):
    """Releases of NCCL with a fault that hangs or ends jobs; ``torch`` and ``machine`` are beginnings."""

    first: tuple[int, int, int]
    last: tuple[int, int, int]
    torch: tuple[str, ...]
    machine: str
    fault: str
    advice: str


BAD_RELEASES = (
    BadRelease((2, 21, 5), (2, 21, 5), ("2.3", "2.4"), "", "hangs inside one node with this torch",
               "Move to a torch that brings NCCL 2.22 or newer."),
    BadRelease((2, 28, 3), (2, 28, 8), ("",), "", "crashes when a job restarts its process group in place",
               "Move to NCCL 2.28.9 or newer."),
    BadRelease((2, 0, 0), (2, 29, 2), ("",), "aarch64",
               "can lose an operation of its proxy on this processor: one rank then spins in ncclLocalOpAppend, and "
               "nothing is logged", "Move to NCCL 2.29.3 or newer (NVIDIA/nccl issue 2353)."),
)  # fmt: skip
"""By the issue trackers of pytorch and NCCL, and the release notes of NVIDIA's resiliency extension for 2.28."""


def lint(job: Job) -> list[Finding]:
    """Run the whole lint."""
    return [finding for rule in RULES for finding in rule(job)]


def wrong_settings(job: Job) -> Iterator[Finding]:
    """env_invalid, env_unknown, env_debug_left_on, env_log_file_clobbered: settings one by one."""
    for (name, value), ranks in job.once(_by_setting).items():
        faults = [*faults_of(name, value), *(_log_file(value, ranks) if name == "NCCL_DEBUG_FILE" else ())]
        yield from (_finding(fault, ranks, name, value) for fault in faults)
        if name in INTERFACE_NAMES:
            yield from _interfaces(job, ranks, name, value)


def _by_setting(job: Job) -> Mapping[tuple[str, str], Sequence[Rank]]:
    """Ranks by name and value of their settings."""
    return _ranks_by(job, lambda process: process.env)


def _by_version(job: Job) -> Mapping[tuple[str, str], Sequence[Rank]]:
    """Ranks by library and its version in their processes."""
    return _ranks_by(job, lambda process: process.versions)


def _ranks_by(job: Job, read: Callable[[RankProcess], Mapping[str, str]]) -> dict[tuple[str, str], list[Rank]]:
    """Ranks by name and value. Ranks of a node share their table: each table is read once."""
    tables: dict[int, list[Rank]] = defaultdict(list)
    for rank in job.ranks:
        tables[id(read(rank.process))].append(rank)
    found: dict[tuple[str, str], list[Rank]] = defaultdict(list)
    for ranks in tables.values():
        for pair in read(ranks[0].process).items():
            found[pair] += ranks
    return {pair: sorted(ranks, key=lambda rank: rank.rank) for pair, ranks in sorted(found.items())}


def _finding(fault: SettingFault, ranks: Sequence[Rank], name: str, value: str) -> Finding:
    """A fault on these ranks (one at least); its evidence is the first one's environment."""
    return Finding(
        fault.kind, fault.severity, fault.weight, fault.summary, ranks=tuple(rank.rank for rank in ranks),
        nodes=tuple(sorted({rank.node for rank in ranks})),
        evidence=(Evidence(Observer.CONTEXT, _source(ranks[0]), None, f"{name}={value}"),), advice=fault.advice,
    )  # fmt: skip


def _source(rank: Rank) -> str:
    return f"environment of {ranks_on([rank.rank], [rank.node])}"


def _log_file(value: str, ranks: Sequence[Rank]) -> Iterator[SettingFault]:
    """NCCL_DEBUG_FILE expands %h, %p and %% alone; without %p the ranks of a node open one file."""
    bad = [f"%{letter}" for letter in re.findall(r"%(.)", value) if letter not in "hp%"]
    shared = "%p" not in value and len({rank.node for rank in ranks}) < len(ranks)
    if bad:
        wrong = f"NCCL does not expand {', '.join(bad)}: the file's name holds it literally"
    elif shared and value not in ("/dev/stdout", "/dev/stderr"):
        wrong = "several ranks of a node open this one file, and each truncates it"
    elif value.startswith("~"):
        wrong = "NCCL does not expand ~"
    else:
        return
    yield SettingFault("env_log_file_clobbered", "warning", f"NCCL_DEBUG_FILE={value}: {wrong}",
                "Use NCCL_DEBUG_FILE=/path/nccl.%h.%p.log (host and process id).")  # fmt: skip


def _interfaces(job: Job, ranks: Sequence[Rank], name: str, value: str) -> Iterator[Finding]:
    """Loop-back where peers are on other nodes, or may be; names of which no interface is up."""
    apart = [rank for rank in ranks if not _all_on_its_node(job, rank)]
    if value.strip().lstrip("=") == "lo" and apart:
        text = f"{name}={value} is the loopback interface: ranks of other nodes cannot be reached through it"
        yield _finding(
            SettingFault("env_invalid", "warning", text, f"Correct {name} or remove it."), apart, name, value
        )
    if value.startswith("^"):
        return
    exact = value.startswith("=") or name.startswith("GLOO")
    wanted = [word.strip().partition(":")[0] for word in value.lstrip("=").split(",") if word.strip()]
    lacking = set()
    for node in _homes(job, ranks):
        up = [interface.name for interface in node.network.interfaces if interface.up]
        if up and not any(have == want if exact else have.startswith(want) for have in up for want in wanted):
            lacking.add(node.name)
    if lacking:
        text = f"{name}={value} names no interface that is up on {', '.join(sorted(lacking))}"
        advice = "Set it to an interface that these nodes have (ip -br link), or remove it."
        fault = SettingFault("env_invalid", "critical", text, advice)
        yield _finding(fault, [rank for rank in ranks if rank.node in lacking], name, value)


def _all_on_its_node(job: Job, rank: Rank) -> bool:
    """Whether a rank's whole job is known to be on its node, by its own settings or by what the job logged."""
    world, here = rank.process.world_size, rank.process.local_world_size
    if world is not None and here is not None:
        return world == here
    world = world or world_or_logged(job)
    return world is not None and world <= sum(other.node == rank.node for other in job.ranks)


def _homes(job: Job, ranks: Iterable[Rank]) -> list[Node]:
    """Nodes of these ranks, each once."""
    return [job.nodes[name] for name in dict.fromkeys(rank.node for rank in ranks) if name in job.nodes]


def mismatches(job: Job) -> Iterator[Finding]:
    """env_mismatch: ranks that must agree on a setting, or on a version of torch, NCCL or CUDA, do not."""
    settings = job.once(_by_setting)
    for name in MUST_AGREE:
        values = {value: ranks for (own, value), ranks in settings.items() if own == name}
        having = {rank.rank for ranks in values.values() for rank in ranks}
        if values and (without := [rank for rank in job.ranks if rank.rank not in having]):
            values["(not set)"] = without
        yield from _odd_ones(name, values)
    for name in ("torch", "nccl", "cuda"):
        versions = {version: ranks for (own, version), ranks in job.once(_by_version).items() if own == name}
        yield from _odd_ones(f"version of {name}", versions)


def _odd_ones(name: str, values: Mapping[str, Sequence[Rank]]) -> Iterator[Finding]:
    if len(values) < 2:
        return
    most_first = sorted(values.items(), key=lambda item: (len(item[1]), item[0]), reverse=True)
    odd = [rank for _, ranks in most_first[1:] for rank in ranks]
    yield Finding(
        "env_mismatch", "critical" if name in FATAL_TO_DIFFER or name == "version of nccl" else "warning", 0.9,
        f"ranks differ in {name}: {'; '.join(f'{value} on {_some(ranks)}' for value, ranks in most_first)}",
        ranks=tuple(sorted(rank.rank for rank in odd)), nodes=tuple(sorted({rank.node for rank in odd})),
        evidence=tuple(Evidence(
            Observer.CONTEXT, _source(ranks[0]), None, f"{name}={value}"
        ) for value, ranks in most_first),
        advice=f"Give every rank the same {name}: ranks that differ choose different algorithms or never meet.",
    )  # fmt: skip


def _some(ranks: Sequence[Rank]) -> str:
    if len(ranks) == 1:
        return rank_text(ranks[0].rank)
    shown = ", ".join(str(rank.rank) for rank in ranks[:6])
    return f"ranks {shown}" + (f" and {len(ranks) - 6} more" if len(ranks) > 6 else "")


def known_bad_versions(job: Job) -> Iterator[Finding]:
    """nccl_known_bad: the library that a rank has mapped is a release with a fault (:data:`BAD_RELEASES`)."""
    machines = {name: node.hello.machine for name, node in job.nodes.items() if node.hello is not None}
    for (library, version), ranks in job.once(_by_version).items():
        release = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
        for bad in BAD_RELEASES if library == "nccl" else ():
            hit = [
                rank for rank in ranks
                if rank.process.versions.get("torch", "").startswith(bad.torch)
                and machines.get(rank.node, "").startswith(bad.machine)
            ]  # fmt: skip
            if hit and bad.first <= release <= bad.last:
                torch = hit[0].process.versions.get("torch", "unknown")
                text = f"NCCL {version} (torch {torch}) {bad.fault}"
                yield _finding(SettingFault("nccl_known_bad", "warning", text, bad.advice, 0.6), hit, "NCCL", version)


RULES = (mismatches, wrong_settings, known_bad_versions)
"""Every rule of this lint; the verdict runs them with the others."""
