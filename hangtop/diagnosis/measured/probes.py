"""What a collective probe's report proves: who was absent, which node or link is slow, who has wrong values.

A node is told from a link by its other pairs: a node whose every pair is bad while the pairs without it are well is bad
itself; a pair whose two nodes are well with others is a bad link (the A-B, C-D pairing of nccl-tests issue 106).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping

from collectors.samples.probes import ProbeRank, ProbeReport
from hangtop.diagnosis.finding import Evidence, Finding, next_step
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.measured.culprits import accused
from hangtop.diagnosis.measured.expected import bandwidth_low, socket_fallback
from hangtop.diagnosis.rules.paths import mtu_mismatch

SLOW_SHARE = 1 / 3
"""Of the median over the other pairs: noise on a shared network stays within a factor of two."""
LOST_SHARE = 0.01
"""TCP throughput falls with the square root of the loss; at 1 % a collective already waits for time-outs."""
LOST_BY_ITSELF = 0.03
"""A probe that fills a fast link loses up to 2 % in queues of its own making, and is none the slower for it."""
HELD_UP = 1 / 2
"""Of the rate of pairs without loss: what is lost and costs nothing is the probe's own doing."""
LATE = 1.5
"""Time for the same work, over the median."""
LOCATED = {"packet_loss", "path_blocked", "probe_absent", "silent_corruption", "slow_link", "slow_node"}
"""Findings that explain by themselves why the whole is slow."""
WITH_TORCH = frozenset(("gloo", "nccl"))
"""Ways to measure for which a node needs torch."""


def findings(report: ProbeReport) -> tuple[Finding, ...]:
    """All that a report proves, worst first."""
    found = [
        *_corrupt(report),
        *_absent(report),
        *_blocked(report),
        *_lossy(report),
        *_slow(report),
    ]
    # Ranks that wait for one another's time-outs share their processors by chance: no word then on who is late.
    found += [] if {finding.kind for finding in found} & LOCATED else _late(report)
    # A node all of whose pairs are slow explains what one of them loses in a queue that is full for that reason.
    slow_nodes = {node for finding in found if finding.kind == "slow_node" for node in finding.nodes}
    found = [f for f in found if not (f.kind == "packet_loss" and len(f.nodes) > 1 and set(f.nodes) & slow_nodes)]
    # Where nothing gets through, the attempts are all that was sent, and all of them were sent again.
    blocked = {node for finding in found if finding.kind == "path_blocked" for node in finding.nodes}
    found = [f for f in found if not (f.kind == "packet_loss" and set(f.nodes) & blocked)]
    blamed = {node for finding in found if finding.kind in ("packet_loss", "path_blocked") for node in finding.nodes}
    found = [f for f in found if not (f.kind in ("slow_node", "slow_link") and set(f.nodes) & blamed)]
    return tuple(found)


def measured(report: ProbeReport, job: Job) -> tuple[Finding, ...]:
    """All that a report proves about the nodes of a job, worst first.

    That the whole is too slow is said only where nothing tells which node or link makes it so.
    """
    found = [*findings(report), *socket_fallback(job, report)]
    if not {finding.kind for finding in found} & LOCATED:
        found += bandwidth_low(job, report)
    return tuple(found)


def all_findings(report: ProbeReport, job: Job) -> tuple[Finding, ...]:
    """The same, and what the samples of the nodes that took part add to it."""
    taking_part = {rank.node for rank in report.ranks}
    told = [finding for finding in mtu_mismatch(job) if taking_part.issuperset(finding.nodes)]
    return (*measured(report, job), *told)


def outcome(report: ProbeReport, found: Iterable[Finding]) -> str:
    """``ok``, ``slow``, ``failed`` or ``cancelled``, as ``probe --json`` says it."""
    if report.outcome != "done":
        return report.outcome
    kinds = {finding.kind for finding in found}
    if kinds & {"silent_corruption", "path_blocked", "probe_absent"}:
        return "failed"
    return "slow" if kinds else "ok"


def _evidence(report: ProbeReport, texts: Iterable[str]) -> tuple[Evidence, ...]:
    return tuple(Evidence(f"{report.backend} probe", report.at, text) for text in texts)


def _gpus(ranks: Iterable[ProbeRank]) -> tuple[str, ...]:
    return tuple(f"{rank.node}:{rank.gpu}" for rank in ranks if rank.gpu is not None)


def _corrupt(report: ProbeReport) -> Iterator[Finding]:
    """silent_corruption: wrong values, or bits that differ from the other ranks' after the same collective."""
    bad: dict[int, list[str]] = {}
    for figure in report.figures:
        for rank in figure.wrong_ranks:
            bad.setdefault(rank, []).append(f"{figure.op} of {figure.size} bytes: wrong values")
        for rank in set(figure.odd_ranks) - set(figure.wrong_ranks):
            bad.setdefault(rank, []).append(f"{figure.op} of {figure.size} bytes: bits that differ from the others'")
    if bad:
        nodes = {rank.rank: rank.node for rank in report.ranks}
        yield Finding(
            "silent_corruption",
            "critical",
            0.95,
            f"wrong values after a collective on rank {', '.join(str(rank) for rank in sorted(bad))}",
            ranks=tuple(sorted(bad)),
            nodes=tuple(sorted({nodes[rank] for rank in bad if rank in nodes})),
            gpus=_gpus(rank for rank in report.ranks if rank.rank in bad),
            evidence=_evidence(report, [text for texts in bad.values() for text in texts[:3]]),
            advice="Take these nodes out of service and test their GPUs and memory (dcgmi diag -r 3). "
            "Results of jobs that ran there are in doubt.",
        )


def _absent(report: ProbeReport) -> Iterator[Finding]:
    """probe_absent: a node that never started its part, or did not come to the barrier."""
    absent = {rank.node: rank.why for rank in report.ranks if rank.state == "absent"}
    # When the keeper of the store cannot be reached, everybody else is "absent": pairs tell better.
    others = {rank.node for rank in report.ranks} - set(absent)
    if absent and (len(others) > 1 or any(absent.values())):
        late = any(rank.rank >= 0 for rank in report.ranks if rank.state == "absent")
        names = sorted(absent)
        yield Finding(
            "probe_absent",
            "critical",
            0.9,
            f"{', '.join(names)} did not come to the probe's barrier" if late else _took_no_part(absent),
            ranks=tuple(sorted(rank.rank for rank in report.ranks if rank.state == "absent" and rank.rank >= 0)),
            nodes=tuple(names),
            evidence=_evidence(
                report, [f"{node}: {why or 'no sign before the barrier ended'}" for node, why in sorted(absent.items())]
            ),
            advice="See whether the node answers at all, and whether its interpreter finds torch."
            if report.backend in WITH_TORCH
            else "See whether the node answers at all, and what keeps it from it.",
            next=() if late else (next_step("", "preflight", *names),),
        )


def _took_no_part(absent: Mapping[str, str]) -> str:
    """Who could not begin; of one, or where all have the same reason, why."""
    names, whys = ", ".join(sorted(absent)), set(absent.values())
    return f"{names} took no part in the probe" + (f": {whys.pop()}" if len(whys) == 1 else "")


def _blocked(report: ProbeReport) -> Iterator[Finding]:
    """path_blocked: pairs of which one does not reach a port of the other, or that do not finish."""
    bad = {(pair.a, pair.b) for pair in report.pairs if pair.busbw is None or pair.error}
    for names, pairs in accused(report.pairs, bad):
        alone = f"no other node gets through to {names[0]}"
        yield Finding(
            "path_blocked",
            "critical",
            0.85,
            alone if len(names) == 1 else f"{names[0]} and {names[1]} do not get through to each other",
            nodes=names,
            evidence=_evidence(
                report, [f"{pair.a} - {pair.b}: {pair.error or 'did not finish'}" for pair in pairs[:4]]
            ),
            advice="Look at firewalls, routes and MTU on the path; NCCL and gloo use ephemeral ports in both "
            "directions.",
            next=(next_step("P", "probe", "path", *sorted({n for p in pairs for n in (p.a, p.b)})),),
        )


def _lossy(report: ProbeReport) -> Iterator[Finding]:
    """packet_loss: TCP had to send a share of its segments again, and got less through for it."""
    known = [pair for pair in report.pairs if pair.retransmitted is not None]
    clean = [p.busbw for p in known if (p.retransmitted or 0.0) <= LOST_SHARE and p.busbw is not None]
    enough = HELD_UP * statistics.median(clean) if clean else 0.0
    bad = {
        (p.a, p.b)
        for p in known
        if (p.retransmitted or 0.0) > (LOST_SHARE if p.busbw is None or p.busbw < enough else LOST_BY_ITSELF)
    }
    for names, pairs in accused(report.pairs, bad):
        worst = max(pair.retransmitted or 0.0 for pair in pairs)
        where = f"to and from {names[0]}" if len(names) == 1 else f"between {names[0]} and {names[1]}"
        yield Finding(
            "packet_loss",
            "critical",
            0.85,
            f"packets are lost {where}: up to {worst:.1%} of segments are sent again",
            nodes=names,
            evidence=_evidence(
                report, [f"{p.a} - {p.b}: {(p.retransmitted or 0.0):.1%} retransmitted" for p in pairs[:6]]
            ),
            advice="Look at the node's cable, port and switch counters (ethtool -S, ip -s link).",
        )


def _slow(report: ProbeReport) -> Iterator[Finding]:
    """slow_node and slow_link: far under the median of the pairs that have nothing to do with it."""
    speeds = {(pair.a, pair.b): pair.busbw for pair in report.pairs if pair.busbw is not None}
    if len(speeds) < 2:
        return
    bad = set()
    for key, speed in speeds.items():
        # Among three nodes no pair has nothing to do with another: the best one is what the others could be.
        others = [other for pair, other in speeds.items() if not set(pair) & set(key)] or [max(speeds.values())]
        if speed < SLOW_SHARE * max(statistics.median(others), statistics.median(speeds.values())):
            bad.add(key)
    usual = statistics.median([speed for key, speed in speeds.items() if key not in bad] or list(speeds.values()))
    for names, pairs in accused(report.pairs, bad):
        best, alone = max(pair.busbw or 0.0 for pair in pairs), len(names) == 1
        yield Finding(
            "slow_node" if alone else "slow_link",
            "critical",
            0.85 if alone else 0.8,
            f"every pair with {names[0]} is slow: {best:.3g} GB/s at best, others {usual:.3g}" if alone else
            f"{names[0]} and {names[1]} are slow together ({best:.3g} GB/s), well with others ({usual:.3g})",
            nodes=names,
            evidence=_evidence(
                report, [f"{p.a} - {p.b}: busbw {p.busbw or 0.0:.3g} GB/s; median {usual:.3g}" for p in pairs[:6]]
            ),
            advice="Look at this node's adapter: speed it negotiated, errors, other traffic, a busy CPU." if alone else
            "Look at the switch and the cables between the two.",
        )  # fmt: skip


def _late(report: ProbeReport) -> Iterator[Finding]:
    """straggler_rank: the same work takes this rank much longer than the median."""
    late = [rank for rank in report.ranks if rank.late_over_median is not None and rank.late_over_median > LATE]
    if late and len(report.ranks) > 2:
        worst = max(rank.late_over_median or 0.0 for rank in late)
        yield Finding(
            "straggler_rank",
            "warning",
            0.6,
            f"rank {', '.join(str(rank.rank) for rank in late)} takes {worst:.1f} times as long for equal work",
            ranks=tuple(rank.rank for rank in late),
            nodes=tuple(sorted({rank.node for rank in late})),
            gpus=_gpus(late),
            evidence=_evidence(
                report, [f"rank {r.rank} on {r.node}: {r.late_over_median:.2f} × the median" for r in late]
            ),
            advice="Look at what else runs on the node, at clocks and temperature.",
        )
