"""Nodes that do not answer, or do not tell all."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from hangtop.diagnosis.certainty import READ_ITSELF
from hangtop.diagnosis.evidence.devices import ranks_on_node
from hangtop.diagnosis.failures.record import by_rank, failures
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.job import Job, Rank
from hangtop.diagnosis.phrasing import duration, ranks_text
from hangtop.diagnosis.roster import out_of_sight, world_size
from hangtop.diagnosis.tables.thresholds import CLOCK_SKEW_S
from hangtop.diagnosis.waits.statuses import not_responding

BOOT_SLACK_S = 5.0
"""Seconds by which the clocks that tell of a boot, and of a rank's end, may differ."""
ESSENTIAL = ("ranks",)
"""Sources without which nothing can be said of a node."""
OTHERS_ANSWER = (
    "The other nodes answer, so look at this one: at what the reason says, else at its console, power and network port."
)
NONE_ANSWERS = "No node answers: where the reason does not say why, check this machine's network first."
EXAMPLES = 4
"""Ranks that are named as evidence, of many."""


def node_unreachable(job: Job) -> Iterator[Finding]:
    """node_unreachable: a node that gave no answer, or that answered before and does no more, while others do.

    Needs the state of the connections and their own reasons. Where no node answers, the fault may lie on this side.
    """
    answering = [node for node in job.nodes.values() if node.link in ("live", "limited")]
    for name in sorted(job.nodes):
        node = job.nodes[name]
        if not not_responding(node, job.now):
            continue
        ranks = ranks_on_node(job, name) or _nowhere_else(job, name)
        was_there = node.seen_at is not None
        silent = duration(max(0.0, job.now - (node.seen_at or node.since)))
        cut = was_there and bool(ranks) and bool(answering)
        needed = answering and (ranks or not _all_elsewhere(job, name))
        yield Finding(
            "node_unreachable", "critical" if needed else "warning", 0.9 if cut else 0.8 if needed else 0.5,
            f"{name} {f'has not answered for {silent}' if was_there else 'cannot be reached'}"
            f"{f', and {ranks_text(ranks)} with it' if ranks else ''}: {node.why or 'no reason given'}",
            ranks=ranks, nodes=(name,),
            evidence=(Evidence(f"connection to {name}", node.since or None, node.why or node.link),),
            advice=OTHERS_ANSWER if answering else NONE_ANSWERS,
        )  # fmt: skip


def _nowhere_else(job: Job, name: str) -> tuple[int, ...]:
    """By elimination: the ranks of a node that was never seen, where it is the only one without a known rank.

    They are those of WORLD_SIZE that run on no other node, as many as LOCAL_WORLD_SIZE says.
    """
    hidden = [one for one in job.nodes.values() if not_responding(one, job.now) and not job.ranks_of(one.name)]
    seen = {rank.rank for rank in job.ranks}
    absent = tuple(rank for rank in range(world_size(job) or 0) if rank not in seen)
    sizes = {rank.process.local_world_size for rank in job.ranks} - {None}
    alone = [one.name for one in hidden] == [name] and min(seen, default=-1) >= 0
    return absent if alone and sizes <= {len(absent)} else ()


def _all_elsewhere(job: Job, name: str) -> bool:
    """True when every rank of the job runs on other nodes: this one is none of its own."""
    world = world_size(job)
    living = {rank.rank for rank in job.ranks if rank.node != name and rank.gone_at is None}
    return world is not None and len(living) >= world


def node_rebooted(job: Job) -> Iterator[Finding]:
    """node_rebooted: a node was started anew under ranks that ran there, and they run nowhere now.

    Needs when the node was booted, and when its ranks' processes were started, by the node's own clock. A rank that was
    started again, wherever, is no loss; one that was seen to end before, or whose log tells how it failed, ended
    otherwise.
    """
    known = {rank.rank for rank in job.ranks if rank.gone_at is None} | by_rank(failures(job)).keys()
    for name in sorted(job.nodes):
        host = job.nodes[name].host
        if host is None or job.nodes[name].link not in ("live", "limited"):
            continue
        taken = [rank for rank in job.ranks_of(name) if rank.rank not in known and _ended_by_boot(rank, host.booted)]
        if not taken:
            continue
        ranks = tuple(sorted({rank.rank for rank in taken}))
        yield Finding(
            "node_rebooted", "critical", 0.7, f"{name} was rebooted, and {ranks_text(ranks)} ended with it",
            ranks=ranks, nodes=(name,),
            evidence=(
                Evidence(f"/proc/stat on {name}", host.booted, "the machine was started"),
                *(
                    Evidence("ranks", rank.process.started, f"rank {rank.rank} was started, process {rank.process.pid}")
                    for rank in taken[:EXAMPLES]
                ),
            ),
            advice="Look why it was started anew (its console, BMC, journalctl -b -1) before a job runs there again.",
        )  # fmt: skip


def _ended_by_boot(rank: Rank, booted: float) -> bool:
    """True for a process that was started before a machine's last boot and lived, for all that was seen, until then."""
    return rank.gone_at is not None and rank.process.started < booted <= rank.gone_at + BOOT_SLACK_S


def node_limited(job: Job) -> Iterator[Finding]:
    """node_limited: a node that answers, but whose ranks cannot be seen.

    Needs the state of the connection and of the node's sources.
    """
    for name in sorted(job.nodes):
        node = job.nodes[name]
        blind = [node.sources[source] for source in ESSENTIAL if source in node.sources]
        closed = [state for state in blind if state.state in ("denied", "failed", "late")]
        if node.link != "limited" and not closed:
            continue
        why = node.why or "; ".join(f"{state.source}: {state.why}" for state in closed)
        unseen = out_of_sight(job, name)
        of_ranks = f", and nothing is known of {ranks_text(unseen)} meanwhile" if unseen else ""
        yield Finding(
            "node_limited", "warning", 0.9, f"{name} shows only a part{of_ranks}: {why}", nodes=(name,),
            evidence=tuple(Evidence(f"{state.source} on {name}", state.since, state.why) for state in closed)
            or (Evidence(f"connection to {name}", node.since or None, why),),
            advice="Rules that need what is missing here say nothing about this node.",
        )  # fmt: skip


def node_twice(job: Job) -> Iterator[Finding]:
    """node_twice: two names of nodes lead to one machine, so that one that was meant is not watched.

    Needs what both nodes call themselves, their boot id, and one process of a rank that both tell of.
    """
    for name, first in sorted(job.also.items()):
        hello = job.nodes[name].hello
        called = f" ({hello.hostname})" if hello is not None and hello.hostname not in ("", name, first) else ""
        yield Finding(
            "node_twice", "warning", READ_ITSELF,
            f"{first} and {name} are one machine{called}: its ranks count once, and who was meant by one of the names "
            "is not watched",
            nodes=(first, name),
            evidence=(
                *(Evidence(f"boot id of {one.name}", None, one.hello.boot_id)
                  for one in (job.nodes[first], job.nodes[name]) if one.hello is not None),
                *(Evidence("ranks", rank.process.started, f"both tell of rank {rank.rank}, process {rank.process.pid}")
                  for rank in job.ranks_of(first)[:1]),
            ),
            advice=f"Look where the names lead: ssh -G {shlex.quote(name)}, the name server, the list of nodes.",
        )  # fmt: skip


def clock_skew(job: Job) -> Iterator[Finding]:
    """clock_skew: clocks of the nodes differ so far that their logs cannot be put in order.

    Needs the offset of each node's clock, as measured over its connection.
    """
    known = {name: node.clock_offset for name, node in job.nodes.items() if node.clock_offset is not None}
    if len(known) < 2:
        return
    middle = sorted(known.values())[len(known) // 2]
    off = {name: offset - middle for name, offset in sorted(known.items()) if abs(offset - middle) > CLOCK_SKEW_S}
    if off:
        worst = max(off, key=lambda name: abs(off[name]))
        yield Finding(
            "clock_skew", "info", 0.8,
            f"the clock of {worst} is off by {off[worst]:+,.1f} s"
            if len(off) == 1
            else f"the clocks of {len(off):,} nodes are off, that of {worst} by {off[worst]:+,.1f} s",
            nodes=tuple(off),
            evidence=tuple(Evidence(f"clock of {name}", None, f"{offset:+.2f} s") for name, offset in off.items()),
            advice="Start time synchronisation (chrony, ntpd); times of different logs do not compare until then.",
        )  # fmt: skip
