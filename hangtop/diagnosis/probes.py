"""What a probe's report proves: absent nodes; nodes or links that are cut, slow or lossy; ranks with wrong values.

Other pairs tell a bad node from a bad link: a node is bad if its pairs are bad while pairs without it are good; a link
is bad if both of its nodes are good with others (the A-B, C-D pairing of nccl-tests issue 106).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from statistics import median

from collectors.samples.probes import PathFigure, ProbePair, ProbeRank, ProbeReport
from hangtop.diagnosis.finding import Evidence, Finding, NextStep, Observer, next_step
from hangtop.diagnosis.job import Job

Pair = tuple[str, str]

NEARLY_ALL = 2 / 3
"""Share of a node's pairs that must be bad: a node that loses one packet in twenty has a good pair now and then."""
SLOW_SHARE = 1 / 3
"""Share of the other pairs' median under which a pair is slow: noise on a shared network stays within a half."""
LOST_SHARE = 0.03
"""Share of segments sent again: a probe on a fast link loses up to 2 % in its own queues without getting slower."""
FRESH_S = 600.0
"""Ours, seconds: an older probe does not show the present state of a running job."""
WITH_TORCH = frozenset(("gloo", "nccl"))
"""Probe backends for which a node needs torch."""


def report_of(
    backend: str, pairs: Sequence[ProbePair], names: Iterable[str], absent: Mapping[str, str], at: float, took: float
) -> ProbeReport:
    """Make the report of measured pairs; ``names`` took part, ``absent`` gives the reason of each other node."""
    ranks = [ProbeRank(-1, name, "done", "") for name in sorted({*names} - absent.keys())]
    ranks += [ProbeRank(-1, name, "absent", why) for name, why in sorted(absent.items())]
    why = next((pair.error for pair in pairs if pair.error), next(iter(absent.values()), ""))
    return ProbeReport(backend, len(ranks), at, took, why, ranks, [], list(pairs), {})


def outcome(report: ProbeReport, found: Sequence[Finding]) -> str:
    """``ok``, ``slow`` or ``failed``, as ``probe --json`` says it."""
    if report.why or {finding.kind for finding in found} & {"silent_corruption", "path_blocked", "probe_absent"}:
        return "failed"
    return "slow" if found else "ok"


def probed(job: Job) -> Iterator[Finding]:
    """Findings of the probes that ran in this session; of several probes with the same backend the last one counts."""
    fresh = [report for report in job.probed if 0.0 <= job.now - report.at < FRESH_S]
    for report in {report.backend: report for report in fresh}.values():
        yield from findings(report)


def findings(report: ProbeReport) -> tuple[Finding, ...]:
    """All findings of a report, worst first.

    A node that is slow on all pairs explains loss on one of them: its queue is full. On a blocked path, retransmits are
    only retries.
    """
    blocked, lossy, slow = list(_blocked(report)), list(_lossy(report)), list(_slow(report))
    slow_nodes = _nodes(finding for finding in slow if len(finding.nodes) == 1)
    lossy = [finding for finding in lossy if not (len(finding.nodes) > 1 and slow_nodes & set(finding.nodes))]
    lossy = [finding for finding in lossy if not _nodes(blocked) & set(finding.nodes)]
    slow = [finding for finding in slow if not _nodes([*blocked, *lossy]) & set(finding.nodes)]
    return (*_corrupt(report), *_absent(report), *blocked, *lossy, *slow)


def _nodes(found: Iterable[Finding]) -> set[str]:
    return {node for finding in found for node in finding.nodes}


def path_findings(figures: Sequence[PathFigure], report: ProbeReport) -> tuple[Finding, ...]:
    """All findings of path figures, causes first."""
    return (*findings(report), *_narrow(figures, report))


def _probe_finding(
    report: ProbeReport, kind: str, weight: float, names: Iterable[str], summary: str, texts: Sequence[str],
    advice: str, *, ranks: Sequence[ProbeRank] = (), steps: tuple[NextStep, ...] = (),
) -> Finding:  # fmt: skip
    """A finding about these nodes, with what was measured as evidence."""
    return Finding(
        kind, "critical", weight, summary, nodes=tuple(names), ranks=tuple(sorted(rank.rank for rank in ranks)),
        gpus=tuple(f"{rank.node}:{rank.gpu}" for rank in ranks if rank.gpu is not None),
        evidence=tuple(Evidence(Observer.PROBE, f"{report.backend} probe", report.at, text) for text in texts[:6]),
        advice=advice, next=steps,
    )  # fmt: skip


# --- which node or link is at fault for bad pairs ------------------------------------------------------------------


def accused(pairs: Sequence[ProbePair], bad: Collection[Pair]) -> Iterator[tuple[tuple[str, ...], list[ProbePair]]]:
    """Each accused node or pair of nodes, with the pairs that are evidence.

    The node with most bad pairs is accused first and its bad pairs are removed, so that its partners are not accused
    for them. Two thirds of a node's pairs are enough, as one may be good by chance.
    """
    left = set(bad)
    well = [(pair.a, pair.b) for pair in pairs if (pair.a, pair.b) not in bad]
    names: list[str] = []

    def explains(name: str, number: int) -> bool:
        having = _pairs_of(pairs, name)
        without_others = [pair for pair in having if not {pair.a, pair.b} & set(names)]
        alone = number == 1 and len(having) > 1
        return number >= NEARLY_ALL * len(without_others) and any(name not in pair for pair in well) and not alone

    while blamed := {name: n for name, n in Counter(name for key in left for name in key).items() if explains(name, n)}:
        worst = max(sorted(blamed), key=lambda name: blamed[name])
        names.append(worst)
        left = {key for key in left if worst not in key}
    for name in sorted(names):
        yield (name,), _pairs_of(pairs, name)
    for pair in pairs:
        if (pair.a, pair.b) in left:
            yield (pair.a, pair.b), [pair]


def _pairs_of(pairs: Iterable[ProbePair], name: str) -> list[ProbePair]:
    return [pair for pair in pairs if name in (pair.a, pair.b)]


def _blocked(report: ProbeReport) -> Iterator[Finding]:
    """path_blocked: pairs in which one node does not reach a port of the other, or that do not finish."""
    bad = {(pair.a, pair.b) for pair in report.pairs if pair.busbw is None or pair.error}
    for names, pairs in accused(report.pairs, bad):
        yield _probe_finding(
            report, "path_blocked", 0.85, names,
            f"no other node gets through to {names[0]}" if len(names) == 1
            else f"{names[0]} and {names[1]} do not get through to each other",
            [f"{p.a} - {p.b}: {p.error or 'did not finish'}" for p in pairs],
            "Look at firewalls, routes and MTU on the path; NCCL and gloo use ephemeral ports in both directions.",
            steps=(next_step("P", "probe", "path", *sorted({n for p in pairs for n in (p.a, p.b)})),),
        )  # fmt: skip


def _lossy(report: ProbeReport) -> Iterator[Finding]:
    """packet_loss: TCP retransmitted too large a share of its segments."""
    bad = {(pair.a, pair.b) for pair in report.pairs if (pair.retransmitted or 0.0) > LOST_SHARE}
    for names, pairs in accused(report.pairs, bad):
        worst = max(pair.retransmitted or 0.0 for pair in pairs)
        yield _probe_finding(
            report, "packet_loss", 0.85, names,
            f"packets are lost {_where(names)}: up to {worst:.1%} of segments are sent again",
            [f"{p.a} - {p.b}: {p.retransmitted or 0.0:.1%} retransmitted" for p in pairs],
            "Look at the node's cable, port and switch counters (ethtool -S, ip -s link).",
        )  # fmt: skip


def _slow(report: ProbeReport) -> Iterator[Finding]:
    """bandwidth_low: pairs far under the median of the pairs that share no node with them."""
    speeds = {(pair.a, pair.b): pair.busbw for pair in report.pairs if pair.busbw is not None}
    bad = set()
    for key, speed in speeds.items():
        # Among three nodes all pairs share a node: the best pair is the reference.
        others = [other for pair, other in speeds.items() if not set(pair) & set(key)] or [max(speeds.values())]
        if speed < SLOW_SHARE * max(median(others), median(speeds.values())):
            bad.add(key)
    usual = median([speed for key, speed in speeds.items() if key not in bad] or [0.0])
    for names, pairs in accused(report.pairs, bad):
        best = max(pair.busbw or 0.0 for pair in pairs)
        yield _probe_finding(
            report, "bandwidth_low", 0.85, names,
            f"little gets through {_where(names)}: {best:.3g} GB/s at best, {usual:.3g} between others",
            [f"{p.a} - {p.b}: busbw {p.busbw or 0.0:.3g} GB/s; median {usual:.3g}" for p in pairs],
            "Look at this node's adapter: speed it negotiated, errors, other traffic, a busy CPU." if len(names) == 1
            else "Look at the switch and the cables between the two.",
        )  # fmt: skip


def _where(names: Sequence[str]) -> str:
    return f"to and from {names[0]}" if len(names) == 1 else f"between {names[0]} and {names[1]}"


def _narrow(figures: Sequence[PathFigure], report: ProbeReport) -> Iterator[Finding]:
    """mtu_mismatch: packets of the sender's own MTU do not arrive."""
    narrow = {
        (min(figure.a, figure.b), max(figure.a, figure.b)): figure for figure in figures
        if figure.mtu is not None and figure.local_mtu is not None and figure.mtu < figure.local_mtu
    }  # fmt: skip
    for names, pairs in accused(report.pairs, narrow.keys() & {(pair.a, pair.b) for pair in report.pairs}):
        bad = [figure for pair in pairs if (figure := narrow.get((pair.a, pair.b))) is not None]
        yield _probe_finding(
            report, "mtu_mismatch", 0.9, names,
            f"packets over {bad[0].mtu} bytes do not get through {_where(names)}, while {bad[0].interface} on "
            f"{bad[0].a} has MTU {bad[0].local_mtu}",
            [f"{f.a} to {f.b}: {f.mtu} bytes arrive, {f.interface} has MTU {f.local_mtu}" for f in bad],
            "Set one MTU on every hop: ip link set DEV mtu N on the nodes and on the switch ports between them.",
        )  # fmt: skip


# --- ranks ------------------------------------------------------------------------------------------------------


def _corrupt(report: ProbeReport) -> Iterator[Finding]:
    """silent_corruption: wrong values after a collective."""
    wrong = [(figure, rank) for figure in report.figures for rank in figure.wrong_ranks]
    if wrong:
        ranks = [rank for rank in report.ranks if rank.rank in {number for _, number in wrong}]
        yield _probe_finding(
            report, "silent_corruption", 0.95, sorted({rank.node for rank in ranks}),
            f"wrong values after a collective on rank {', '.join(str(rank.rank) for rank in ranks)}",
            [f"{figure.op} of {figure.size} bytes: wrong values on rank {rank}" for figure, rank in wrong],
            "Take these nodes out of service, test them (dcgmi diag -r 3), and doubt results of jobs that ran there.",
            ranks=ranks,
        )  # fmt: skip


def _absent(report: ProbeReport) -> Iterator[Finding]:
    """probe_absent: a node that never started its part, or did not come to the barrier."""
    ranks = [rank for rank in report.ranks if rank.state == "absent"]
    absent = {rank.node: rank.why for rank in ranks}
    # When the store's node cannot be reached, all other nodes are "absent": pairs are better evidence.
    others = {rank.node for rank in report.ranks} - set(absent)
    if not absent or (len(others) < 2 and not any(absent.values())):
        return
    names, late = sorted(absent), any(rank.rank >= 0 for rank in ranks)
    why = f": {ranks[0].why}" if len(set(absent.values())) == 1 else ""
    missed = "did not come to the probe's barrier" if late else f"took no part in the probe{why}"
    keeps = "whether its interpreter finds torch" if report.backend in WITH_TORCH else "why it took no part"
    yield _probe_finding(
        report, "probe_absent", 0.9, names, f"{', '.join(names)} {missed}",
        [f"{name}: {absent[name] or 'no sign before the barrier ended'}" for name in names],
        f"Check whether the node answers at all, and {keeps}.", ranks=[rank for rank in ranks if rank.rank >= 0],
        steps=() if late else (next_step("", "preflight", *names),),
    )  # fmt: skip


RULES = (probed,)
