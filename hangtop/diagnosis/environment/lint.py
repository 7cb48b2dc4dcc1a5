"""The environment lint: one rule per kind of mistake, over the settings of all ranks.

Evidence that these rules need: :class:`~collectors.samples.ranks.RankProcess` (``env``, ``versions``), and, where
names of interfaces and adapters are judged, the node's interfaces and ports. Ranks with the same mistake share one
finding.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from hangtop.diagnosis.environment.about import finding_about, told_by
from hangtop.diagnosis.environment.advice import DEBUG_ONLY, FATAL_TO_DIFFER, MUST_AGREE, RENAMED
from hangtop.diagnosis.environment.settings import environments, ranks_at, settings, versions
from hangtop.diagnosis.environment.unknown import unknown_names
from hangtop.diagnosis.environment.values import complaint
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.job import Job, Node, Rank
from hangtop.diagnosis.phrasing import rank_text
from hangtop.diagnosis.roster import world_or_logged

INTERFACE_NAMES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME")
"""Variables that name network interfaces."""


def invalid_values(job: Job) -> Iterator[Finding]:
    """env_invalid: a value outside what is accepted, a product over its bound, or a list that names nothing here."""
    for (name, value), ranks in job.once(settings).items():
        wrong = complaint(name, value)
        if wrong:
            yield finding_about(
                "env_invalid",
                "warning",
                ranks,
                (name, value),
                f"{name}={value} {wrong}",
                f"Correct {name} or remove it.",
            )
    for table, places in job.once(environments):
        sockets = [table.get(name, "") for name in ("NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD")]
        if all(text.isdecimal() for text in sockets) and int(sockets[0]) * int(sockets[1]) > 64:
            for rank in ranks_at(job, places):
                yield finding_about(
                    "env_invalid", "warning", [rank],
                    ("NCCL_SOCKET_NTHREADS × NCCL_NSOCKS_PERTHREAD", " × ".join(sockets)),
                    f"{sockets[0]} threads × {sockets[1]} sockets is over NCCL's bound of 64", "Lower one of them.",
                )  # fmt: skip
    yield from _absent_interfaces(job)
    yield from _loopback(job)
    yield from _greedy_adapters(job)


def _loopback(job: Job) -> Iterator[Finding]:
    """Named by ranks that have peers on other nodes, or may have: of one node's ranks it is a good choice."""
    for (name, value), ranks in job.once(settings).items():
        if name not in INTERFACE_NAMES or value.strip().lstrip("=") != "lo":
            continue
        apart = [rank for rank in ranks if not _all_on_its_node(job, rank)]
        if apart:
            yield finding_about(
                "env_invalid", "warning", apart, (name, value),
                f"{name}={value} is the loopback interface: ranks of other nodes cannot be reached through it",
                f"Correct {name} or remove it.",
            )  # fmt: skip


def _all_on_its_node(job: Job, rank: Rank) -> bool:
    """True where a rank's whole job is known to be on its node, by its own settings or by what the job logged."""
    world, here = rank.process.world_size, rank.process.local_world_size
    if world is not None and here is not None:
        return world == here
    world = world or world_or_logged(job)
    return world is not None and world <= sum(other.node == rank.node for other in job.ranks)


def _absent_interfaces(job: Job) -> Iterator[Finding]:
    for (name, value), ranks in job.once(settings).items():
        if name not in INTERFACE_NAMES or value.startswith("^"):
            continue
        exact = value.startswith("=") or name.startswith("GLOO")
        wanted = [word.strip().partition(":")[0] for word in value.lstrip("=").split(",") if word.strip()]
        lacking = set()
        for node in _homes(job, ranks):
            names = [interface.name for interface in node.network.interfaces if interface.up]
            hit = any(have == want if exact else have.startswith(want) for have in names for want in wanted)
            if names and not hit:
                lacking.add(node.name)
        if lacking:
            without = [rank for rank in ranks if rank.node in lacking]
            nodes = ", ".join(sorted(lacking))
            yield finding_about(
                "env_invalid", "critical", without, (name, value),
                f"{name}={value} names no interface that is up on {nodes}",
                "Set it to an interface that these nodes have (ip -br link), or remove it.",
            )  # fmt: skip


def _homes(job: Job, ranks: Iterable[Rank]) -> list[Node]:
    """Nodes of these ranks, each once."""
    return [job.nodes[name] for name in dict.fromkeys(rank.node for rank in ranks) if name in job.nodes]


def _greedy_adapters(job: Job) -> Iterator[Finding]:
    for (name, value), ranks in job.once(settings).items():
        if name != "NCCL_IB_HCA" or value.startswith(("=", "^")):
            continue
        wanted = {word.strip().partition(":")[0] for word in value.split(",") if word.strip()}
        for node in _homes(job, ranks):
            devices = sorted({port.facts.device for port in node.ports})
            extra = [have for have in devices if have not in wanted and any(have.startswith(want) for want in wanted)]
            if extra:
                yield finding_about(
                    "env_invalid", "warning", ranks, (name, value),
                    f"NCCL_IB_HCA={value} matches by prefix and takes {', '.join(extra)} too (seen on {node.name})",
                    f"Write NCCL_IB_HCA=={value}: the equals sign makes it exact.",
                )  # fmt: skip
                break


def deprecated_names(job: Job) -> Iterator[Finding]:
    """env_deprecated: an old name, with today's; whether the old one still works is said."""
    for (name, value), ranks in job.once(settings).items():
        renamed = RENAMED.get(name)
        if renamed and renamed.instead not in ranks[0].process.env:
            effect = "still works" if renamed.works else "does nothing any more"
            yield finding_about(
                "env_deprecated", "info" if renamed.works else "warning", ranks, (name, value),
                f"{name} is the old name of {renamed.instead} (since {renamed.since}) and {effect}",
                f"Set {renamed.instead} instead.",
            )  # fmt: skip
        if name == "NCCL_LAUNCH_MODE" and value.upper() == "GROUP":
            yield finding_about(
                "env_deprecated", "info", ranks, (name, value), "NCCL_LAUNCH_MODE=GROUP is deprecated since NCCL 2.9",
                "Remove it.",
            )  # fmt: skip


def debugging_left_on(job: Job) -> Iterator[Finding]:
    """env_debug_left_on: settings for finding faults that slow a production job, and what each of them does."""
    for (name, value), ranks in job.once(settings).items():
        setting = DEBUG_ONLY.get(name)
        if setting and value.strip().lower() in setting.values:
            yield finding_about(
                "env_debug_left_on", "warning", ranks, (name, value), f"{name}={value}: {setting.cost}",
                "Remove it once the fault is found.",
            )  # fmt: skip


def clobbered_log_file(job: Job) -> Iterator[Finding]:
    """env_log_file_clobbered: NCCL_DEBUG_FILE expands %h, %p and %% alone; without %p ranks share a file."""
    for (name, value), ranks in job.once(settings).items():
        if name != "NCCL_DEBUG_FILE" or value in ("/dev/stdout", "/dev/stderr"):
            continue
        bad = [f"%{letter}" for letter in re.findall(r"%(.)", value) if letter not in "hp%"]
        sharing = len({rank.node for rank in ranks}) < len(ranks)
        if bad:
            text = f"NCCL does not expand {', '.join(bad)}: the file's name holds it literally"
        elif "%p" not in value and sharing:
            text = "several ranks of a node open this one file, and each truncates it"
        elif value.startswith("~"):
            text = "NCCL does not expand ~"
        else:
            continue
        yield finding_about(
            "env_log_file_clobbered", "warning", ranks, (name, value), f"NCCL_DEBUG_FILE={value}: {text}",
            "Use NCCL_DEBUG_FILE=/path/nccl.%h.%p.log (host and process id).",
        )  # fmt: skip


def mismatches(job: Job) -> Iterator[Finding]:
    """env_mismatch: ranks that must agree on a setting, or on a version of torch, NCCL or CUDA, do not."""
    if len(job.ranks) < 2:
        return
    for name in sorted(MUST_AGREE):
        values = [(table.get(name, "(not set)"), places) for table, places in job.once(environments)]
        yield from _odd_ones(job, name, values)
    for name in ("torch", "nccl", "cuda"):
        known = [(table[name], places) for table, places in job.once(versions) if name in table]
        yield from _odd_ones(job, f"version of {name}", known)


def _odd_ones(job: Job, name: str, values: Sequence[tuple[str, list[int]]]) -> Iterator[Finding]:
    if len({value for value, _ in values}) < 2:
        return
    by_value: dict[str, list[int]] = defaultdict(list)
    for value, places in values:
        by_value[value] += places
    ordered = [
        (value, ranks_at(job, places))
        for value, places in sorted(by_value.items(), key=lambda item: (len(item[1]), item[0]))
    ]
    odd = [rank for _, ranks in ordered[:-1] for rank in ranks]
    spread = "; ".join(f"{value} on {_some(ranks)}" for value, ranks in reversed(ordered))
    evidence = tuple(Evidence(told_by(ranks[0], name), None, f"{name}={value}") for value, ranks in reversed(ordered))
    yield Finding(
        "env_mismatch",
        "critical" if name in FATAL_TO_DIFFER or name == "version of nccl" else "warning",
        0.9,
        f"ranks differ in {name}: {spread}",
        ranks=tuple(sorted(rank.rank for rank in odd)),
        nodes=tuple(sorted({rank.node for rank in odd})),
        evidence=evidence,
        advice=f"Give every rank the same {name}: ranks that differ choose different algorithms or never meet.",
    )


def _some(ranks: list[Rank]) -> str:
    if len(ranks) == 1:
        return rank_text(ranks[0].rank)
    shown = ", ".join(str(rank.rank) for rank in ranks[:6])
    return f"ranks {shown}" + (f" and {len(ranks) - 6} more" if len(ranks) > 6 else "")


def known_bad_versions(job: Job) -> Iterator[Finding]:
    """nccl_known_bad: releases with a fault that hangs or ends jobs.

    Sources: pytorch and NCCL issue trackers for 2.21.5 with torch 2.3 and 2.4 inside one node; the release notes of
    NVIDIA's resiliency extension for 2.28.3 to 2.28.8 (crash when a process group is restarted in place).
    """
    by_version: dict[tuple[str, str], list[int]] = defaultdict(list)
    for table, places in job.once(versions):
        by_version[table.get("nccl", ""), table.get("torch", "")] += places
    for (nccl, torch), places in by_version.items():
        release = tuple(int(part) for part in re.findall(r"\d+", nccl)[:3])
        if release == (2, 21, 5) and torch.startswith(("2.3", "2.4")):
            why, advice = "hangs inside one node with this torch", "Move to a torch that brings NCCL 2.22 or newer."
        elif (2, 28, 3) <= release <= (2, 28, 8):
            why, advice = "crashes when a job restarts its process group in place", "Move to NCCL 2.28.9 or newer."
        else:
            continue
        yield finding_about(
            "nccl_known_bad",
            "warning",
            ranks_at(job, places),
            ("NCCL", nccl),
            f"NCCL {nccl} (torch {torch or 'unknown'}) {why}",
            advice,
            0.6,
        )


RULES = (
    mismatches,
    invalid_values,
    unknown_names,
    clobbered_log_file,
    deprecated_names,
    debugging_left_on,
    known_bad_versions,
)
"""Every rule of this lint; the verdict runs them with the others."""


def lint(job: Job) -> list[Finding]:
    """Run the whole lint."""
    return [finding for rule in RULES for finding in rule(job)]
