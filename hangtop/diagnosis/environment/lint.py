"""The environment lint: one rule per kind of mistake, over the settings of all ranks.

Needs :class:`~collectors.samples.ranks.RankProcess` (``env``, ``versions``), and, where names of interfaces and
adapters are judged, the node's interfaces and ports. Ranks with the same mistake share one finding.
"""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from collectors.samples.ranks import RankProcess
from hangtop.diagnosis.environment.alike import environments, ranks_at, settings, versions
from hangtop.diagnosis.environment.names import (
    BUILD_NAMES,
    LATEST,
    NCCL_NAMES,
    PLUGIN_PREFIXES,
    TORCH_NAMES,
    Release,
)
from hangtop.diagnosis.environment.settings import ACCEPTED, DEBUG_ONLY, FATAL_TO_DIFFER, MUST_AGREE, MYTHS, RENAMED
from hangtop.diagnosis.finding import Evidence, Finding, Severity
from hangtop.diagnosis.job import Job, Node, Rank
from hangtop.diagnosis.phrasing import rank_text, ranks_on
from hangtop.diagnosis.roster import world_or_logged

INTERFACE_NAMES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME")
"""Variables that name network interfaces."""
JUDGED_PREFIXES = ("NCCL_", "TORCH_NCCL_", "TORCH_FR_")
MOST_SOCKETS = 64
"""NCCL's bound on threads times sockets."""
BAD_RELEASES = (
    ((2, 21, 5), (2, 21, 5), ("2.3", "2.4"), "hangs inside one node with this torch",
     "Move to a torch that brings NCCL 2.22 or newer."),
    ((2, 28, 3), (2, 28, 8), ("",), "crashes when a job restarts its process group in place",
     "Move to NCCL 2.28.9 or newer."),
)  # fmt: skip
"""First and last release of NCCL, beginnings of torch's, what it does, what to do. Sources: the issue trackers of
pytorch and NCCL for 2.21.5; the release notes of NVIDIA's resiliency extension for 2.28."""


def _about(kind: str, severity: Severity, ranks: Sequence[Rank], setting: tuple[str, str], summary: str, advice: str,
           weight: float = 0.9) -> Finding:  # fmt: skip
    """What is wrong with a setting on these ranks (one at least); its evidence is the first one's environment."""
    return Finding(
        kind, severity, weight, summary, ranks=tuple(rank.rank for rank in ranks),
        nodes=tuple(sorted({rank.node for rank in ranks})),
        evidence=(Evidence(_told_by(ranks[0], setting[0]), None, "=".join(setting)),), advice=advice,
    )  # fmt: skip


def _told_by(rank: Rank, name: str) -> str:
    """Where a rank has a setting from: its environment, or a file that NCCL reads beside it."""
    file = rank.process.conf.get(name)
    own = f"environment of {ranks_on([rank.rank], [rank.node])}"
    return own if file is None else f"{own}, by {file}"


def invalid_values(job: Job) -> Iterator[Finding]:
    """env_invalid: a value outside what is accepted, a product over its bound, or a list that names nothing here."""
    for setting, ranks in job.once(settings).items():
        name, value = setting
        if name in ACCEPTED and (wrong := ACCEPTED[name](value)):
            yield _about("env_invalid", "warning", ranks, setting, f"{name}={value} {wrong}",
                         f"Correct {name} or remove it.")  # fmt: skip
        if name in INTERFACE_NAMES:
            yield from _interfaces(job, ranks, name, value)
        if name == "NCCL_IB_HCA" and not value.startswith(("=", "^")):
            yield from _greedy_adapters(job, ranks, value)
    for table, places in job.once(environments):
        sockets = [table.get(name, "") for name in ("NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD")]
        if all(text.isdecimal() for text in sockets) and int(sockets[0]) * int(sockets[1]) > MOST_SOCKETS:
            for rank in ranks_at(job, places):
                yield _about(
                    "env_invalid", "warning", [rank],
                    ("NCCL_SOCKET_NTHREADS × NCCL_NSOCKS_PERTHREAD", " × ".join(sockets)),
                    f"{sockets[0]} threads × {sockets[1]} sockets is over NCCL's bound of {MOST_SOCKETS}",
                    "Lower one of them.",
                )  # fmt: skip


def _interfaces(job: Job, ranks: Sequence[Rank], name: str, value: str) -> Iterator[Finding]:
    """Loop-back where peers are on other nodes, or may be; names of which no interface is up."""
    apart = [rank for rank in ranks if not _all_on_its_node(job, rank)]
    if value.strip().lstrip("=") == "lo" and apart:
        yield _about(
            "env_invalid", "warning", apart, (name, value),
            f"{name}={value} is the loopback interface: ranks of other nodes cannot be reached through it",
            f"Correct {name} or remove it.",
        )  # fmt: skip
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
        yield _about(
            "env_invalid", "critical", [rank for rank in ranks if rank.node in lacking], (name, value),
            f"{name}={value} names no interface that is up on {', '.join(sorted(lacking))}",
            "Set it to an interface that these nodes have (ip -br link), or remove it.",
        )  # fmt: skip


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


def _greedy_adapters(job: Job, ranks: Sequence[Rank], value: str) -> Iterator[Finding]:
    wanted = {word.strip().partition(":")[0] for word in value.split(",") if word.strip()}
    for node in _homes(job, ranks):
        devices = sorted({port.facts.device for port in node.ports} - wanted)
        if extra := [have for have in devices if any(have.startswith(want) for want in wanted)]:
            yield _about(
                "env_invalid", "warning", ranks, ("NCCL_IB_HCA", value),
                f"NCCL_IB_HCA={value} matches by prefix and takes {', '.join(extra)} too (seen on {node.name})",
                f"Write NCCL_IB_HCA=={value}: the equals sign makes it exact.",
            )  # fmt: skip
            return


def names(job: Job) -> Iterator[Finding]:
    """env_unknown, env_deprecated: names that nobody reads, that this release does not read, or that are old."""
    for setting, ranks in job.once(settings).items():
        name, _ = setting
        renamed = RENAMED.get(name)
        if renamed and renamed.instead not in ranks[0].process.env:
            effect = "still works" if renamed.works else "does nothing any more"
            yield _about(
                "env_deprecated", "info" if renamed.works else "warning", ranks, setting,
                f"{name} is the old name of {renamed.instead} (since {renamed.since}) and {effect}",
                f"Set {renamed.instead} instead.",
            )  # fmt: skip
        if name in MYTHS:
            wanted, instead = MYTHS[name]
            yield _about("env_unknown", "warning", ranks, setting, f"nobody reads {name}: set for {wanted}, it does "
                         "nothing", f"Remove it. What does it: {instead}.")  # fmt: skip
        elif not _is_known(name):
            yield from _unknown(name, setting, ranks)
        else:
            yield from _unread(name, setting, ranks)


def _is_known(name: str) -> bool:
    known = name in NCCL_NAMES or name in TORCH_NAMES or name in RENAMED or name in BUILD_NAMES
    return known or not name.startswith(JUDGED_PREFIXES) or name.startswith(PLUGIN_PREFIXES)


def _unknown(name: str, setting: tuple[str, str], ranks: Sequence[Rank]) -> Iterator[Finding]:
    near, judged = _nearest(name), ranks
    if not near and name.startswith("NCCL_"):  # a later NCCL than we know may well read it
        judged = [rank for rank in ranks if (_release(rank.process) or LATEST) <= LATEST]
    if judged:
        newest = f"{LATEST[0]}.{LATEST[1]}"
        yield _about(
            "env_unknown", "info", judged, setting,
            f"{name} is no setting that NCCL (2.10 to {newest}) or PyTorch reads" + (f"; {near} is" if near else ""),
            f"Did you mean {near}?" if near else "Remove it, unless a plugin of yours reads it.",
            weight=0.8 if near else 0.5,
        )  # fmt: skip


@lru_cache(maxsize=256)
def _nearest(name: str) -> str:
    """The real name that is most like this one; empty where none is."""
    near = difflib.get_close_matches(name, [*NCCL_NAMES, *TORCH_NAMES, *RENAMED], n=1, cutoff=0.85)
    return near[0] if near else ""


def _unread(name: str, setting: tuple[str, str], ranks: Sequence[Rank]) -> Iterator[Finding]:
    """A real name, for another release of NCCL than the one that is loaded."""
    by_reason: dict[str, list[Rank]] = defaultdict(list)
    for rank in ranks:
        by_reason[_why_unread(name, _release(rank.process))].append(rank)
    by_reason.pop("", None)
    for reason, judged in by_reason.items():
        yield _about("env_unknown", "info", judged, setting, f"{'='.join(setting)} does nothing here: {reason}",
                     "Remove it, or run with a release that reads it.")  # fmt: skip


def _release(process: RankProcess) -> Release | None:
    """Of the NCCL that this rank has loaded; None where that is not known."""
    found = re.match(r"(\d{1,4})\.(\d{1,4})", process.versions.get("nccl", ""))
    return (int(found.group(1)), int(found.group(2))) if found else None


def _why_unread(name: str, release: Release | None) -> str:
    """``NCCL 2.21 does not read it: it came with 2.31``; empty where it does, or nothing is known."""
    known = NCCL_NAMES.get(name)
    if known is None or release is None:
        return ""
    mine = f"NCCL {release[0]}.{release[1]} does not read it"
    if known.since is not None and release < known.since:
        return f"{mine}: it came with {known.since[0]}.{known.since[1]}"
    if known.until is not None and release > known.until:
        return f"{mine}: it went after {known.until[0]}.{known.until[1]}"
    return ""


def debugging(job: Job) -> Iterator[Finding]:
    """env_debug_left_on: settings that slow a production job; env_log_file_clobbered: ranks that share one log file.

    NCCL_DEBUG_FILE expands %h, %p and %% alone; without %p the ranks of a node open one file.
    """
    for setting, ranks in job.once(settings).items():
        name, value = setting
        debug = DEBUG_ONLY.get(name)
        if debug and value.strip().lower() in debug.values:
            yield _about("env_debug_left_on", "warning", ranks, setting, f"{name}={value}: {debug.cost}",
                         "Remove it once the fault is found.")  # fmt: skip
        if name == "NCCL_DEBUG_FILE" and (text := _clobbers(value, ranks)):
            yield _about("env_log_file_clobbered", "warning", ranks, setting, f"NCCL_DEBUG_FILE={value}: {text}",
                         "Use NCCL_DEBUG_FILE=/path/nccl.%h.%p.log (host and process id).")  # fmt: skip


def _clobbers(value: str, ranks: Sequence[Rank]) -> str:
    bad = [f"%{letter}" for letter in re.findall(r"%(.)", value) if letter not in "hp%"]
    if bad:
        return f"NCCL does not expand {', '.join(bad)}: the file's name holds it literally"
    shared = "%p" not in value and len({rank.node for rank in ranks}) < len(ranks)
    if shared and value not in ("/dev/stdout", "/dev/stderr"):
        return "several ranks of a node open this one file, and each truncates it"
    return "NCCL does not expand ~" if value.startswith("~") else ""


def mismatches(job: Job) -> Iterator[Finding]:
    """env_mismatch: ranks that must agree on a setting, or on a version of torch, NCCL or CUDA, do not."""
    if len(job.ranks) < 2:
        return
    for name in sorted(MUST_AGREE):
        yield from _odd_ones(job, name, [(t.get(name, "(not set)"), places) for t, places in job.once(environments)])
    for name in ("torch", "nccl", "cuda"):
        known = [(table[name], places) for table, places in job.once(versions) if name in table]
        yield from _odd_ones(job, f"version of {name}", known)


def _odd_ones(job: Job, name: str, values: Sequence[tuple[str, list[int]]]) -> Iterator[Finding]:
    by_value: dict[str, list[int]] = defaultdict(list)
    for value, places in values:
        by_value[value] += places
    if len(by_value) < 2:
        return
    ordered = sorted(by_value.items(), key=lambda item: (len(item[1]), item[0]), reverse=True)
    most_first = [(value, ranks_at(job, places)) for value, places in ordered]
    odd = [rank for _, ranks in most_first[1:] for rank in ranks]
    yield Finding(
        "env_mismatch", "critical" if name in FATAL_TO_DIFFER or name == "version of nccl" else "warning", 0.9,
        f"ranks differ in {name}: {'; '.join(f'{value} on {_some(ranks)}' for value, ranks in most_first)}",
        ranks=tuple(sorted(rank.rank for rank in odd)), nodes=tuple(sorted({rank.node for rank in odd})),
        evidence=tuple(Evidence(_told_by(ranks[0], name), None, f"{name}={value}") for value, ranks in most_first),
        advice=f"Give every rank the same {name}: ranks that differ choose different algorithms or never meet.",
    )  # fmt: skip


def _some(ranks: Sequence[Rank]) -> str:
    if len(ranks) == 1:
        return rank_text(ranks[0].rank)
    shown = ", ".join(str(rank.rank) for rank in ranks[:6])
    return f"ranks {shown}" + (f" and {len(ranks) - 6} more" if len(ranks) > 6 else "")


def known_bad_versions(job: Job) -> Iterator[Finding]:
    """nccl_known_bad: releases with a fault that hangs or ends jobs (:data:`BAD_RELEASES`)."""
    by_version: dict[tuple[str, str], list[int]] = defaultdict(list)
    for table, own in job.once(versions):
        by_version[table.get("nccl", ""), table.get("torch", "")] += own
    for (nccl, torch), places in by_version.items():
        release = tuple(int(part) for part in re.findall(r"\d+", nccl)[:3])
        for first, last, with_torch, why, advice in BAD_RELEASES:
            if first <= release <= last and torch.startswith(with_torch):
                yield _about("nccl_known_bad", "warning", ranks_at(job, places), ("NCCL", nccl),
                             f"NCCL {nccl} (torch {torch or 'unknown'}) {why}", advice, 0.6)  # fmt: skip


RULES = (mismatches, invalid_values, names, debugging, known_bad_versions)
"""Every rule of this lint; the verdict runs them with the others."""


def lint(job: Job) -> list[Finding]:
    """Run the whole lint."""
    return [finding for rule in RULES for finding in rule(job)]
