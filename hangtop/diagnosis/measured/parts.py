"""From a node or link that a probe found bad to the GPU or port that makes it so, where single ones were measured."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from collectors.samples.probes import ProbePair, ProbeReport
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.measured.culprits import culprits_of, pairs_of
from hangtop.diagnosis.phrasing import listed

SLOW_SHARE = 1 / 3
"""Of the median of the others: what is slower stands out."""
LOSSY = 0.03
"""Share of segments sent again: a probe that fills a fast link loses up to 2 % in queues of its own making."""
NARROWED = {"packet_loss", "path_blocked", "slow_link", "slow_node"}
LOOK_AT_PORT = "Look at this port first: its cable, the switch's port, its counters, the speed that it negotiated. "
LOOK_AT_GPU = "Look at this GPU first: its PCIe link and clocks, the bridge and the card that are nearest to it. "

LOOK_AT_PROCESSOR = "Look at what else runs on the node's processors. "


def refined(report: ProbeReport, found: Sequence[Finding]) -> list[Finding]:
    """The same findings, with the GPUs and ports that stand out in them; a new one where nothing else has told of it.

    Needs a probe of collectives that went on to single GPUs or ports.
    """
    if not report.by_gpu and not report.by_port:
        return list(found)
    told = [_narrowed(report, finding) if finding.kind in NARROWED else finding for finding in found]
    if any(finding.kind in NARROWED for finding in found):
        return told
    return [*told, *_unheard(report)]


def standing_out(pairs: Sequence[ProbePair], nodes: Collection[str]) -> list[str]:
    """Parts of these nodes that are bad while others of theirs are well; empty when all are alike.

    A part that was measured once may owe it to the other end: both are meant, and that of a node which is not asked
    about is left out.
    """
    names, links = culprits_of(pairs, {(pair.a, pair.b) for pair in _bad(pairs)})
    found: set[str] = set()
    for name in names:
        own = pairs_of(pairs, name)
        found |= {name} if len(own) > 1 else {own[0].a, own[0].b}
    for link in links:
        found |= {link.a, link.b}
    found = {name for name in found if node_of(name) in nodes}
    measured = {name for pair in pairs for name in (pair.a, pair.b) if node_of(name) in nodes}
    return sorted(found) if found < measured else []


def node_of(part: str) -> str:
    """``node4`` of ``node4:3`` and of ``node4:mlx5_0/1``."""
    return part.rpartition(":")[0]


def _bad(pairs: Sequence[ProbePair]) -> Iterator[ProbePair]:
    for pair in pairs:
        others = [other.busbw for other in pairs if other.busbw is not None and other is not pair]
        usual = statistics.median(others) if others else 0.0
        speed = pair.busbw or 0.0
        lossy = (pair.retransmitted or 0.0) > LOSSY
        if pair.busbw is None or pair.error or lossy or speed < SLOW_SHARE * usual:
            yield pair


def _narrowed(report: ProbeReport, finding: Finding) -> Finding:
    gpus = standing_out(_of(report.by_gpu, finding.nodes), finding.nodes)
    ports = standing_out(_of(report.by_port, finding.nodes), finding.nodes)
    if not gpus and not ports:
        return finding
    return replace(
        finding,
        summary=f"{finding.summary}; it is {_words(report, gpus, ports)}",
        gpus=tuple(gpus) if report.backend == "nccl" else (),
        ports=tuple(ports),
        evidence=(*_evidence(report, gpus, ports), *finding.evidence),
        advice=_advice(report, ports) + finding.advice,
    )


def _unheard(report: ProbeReport) -> Iterator[Finding]:
    """GPUs or ports that stand out although no node or link does: of a node alone, or of two with nobody beside."""
    everywhere = {node_of(name) for pair in (*report.by_gpu, *report.by_port) for name in (pair.a, pair.b)}
    gpus, ports = standing_out(report.by_gpu, everywhere), standing_out(report.by_port, everywhere)
    if not gpus and not ports:
        return
    nodes = tuple(sorted({node_of(name) for name in (*gpus, *ports)}))
    own = [pair for name in (*gpus, *ports) for pair in pairs_of((*report.by_gpu, *report.by_port), name)]
    blocked = all(pair.busbw is None for pair in own)
    words = _words(report, gpus, ports)
    yield Finding(
        "path_blocked" if blocked else "slow_node" if len(nodes) == 1 else "slow_link",
        "critical",
        0.8,
        f"{words}: {'nothing gets through' if blocked else 'far slower than the others'}",
        nodes=nodes,
        gpus=tuple(gpus) if report.backend == "nccl" else (),
        ports=tuple(ports),
        evidence=_evidence(report, gpus, ports),
        advice=_advice(report, ports).strip(),
    )


def _advice(report: ProbeReport, ports: Sequence[str]) -> str:
    return LOOK_AT_PORT if ports else LOOK_AT_GPU if report.backend == "nccl" else LOOK_AT_PROCESSOR


def _of(pairs: Sequence[ProbePair], nodes: Collection[str]) -> list[ProbePair]:
    return [pair for pair in pairs if {node_of(pair.a), node_of(pair.b)} & set(nodes)]


def _words(report: ProbeReport, gpus: Sequence[str], ports: Sequence[str]) -> str:
    """``port eth0 of node3 and GPU 3 of node3``."""
    what = "GPU" if report.backend == "nccl" else "local rank"
    named = [f"port {port.rpartition(':')[2]} of {node_of(port)}" for port in ports]
    named += [f"{what} {gpu.rpartition(':')[2]} of {node_of(gpu)}" for gpu in gpus]
    return listed(named)


def _evidence(report: ProbeReport, gpus: Sequence[str], ports: Sequence[str]) -> tuple[Evidence, ...]:
    """Measurements of what stands out, worst first, then those of what they were compared with."""
    texts = []
    for named, pairs in ((ports, report.by_port), (gpus, report.by_gpu)):
        nodes = {node_of(name) for name in named}
        own = sorted(_of(pairs, nodes), key=lambda pair: (not {pair.a, pair.b} & set(named), pair.busbw or 0.0))
        texts += [f"{pair.a} - {pair.b}: {_told(pair)}" for pair in own[:4]]
    return tuple(Evidence(f"{report.backend} probe", report.at, text) for text in texts)


def _told(pair: ProbePair) -> str:
    if pair.error or pair.busbw is None:
        return pair.error or "did not finish"
    again = pair.retransmitted or 0.0
    return f"busbw {pair.busbw:.3g} GB/s" + (f", {again:.1%} sent again" if again > LOSSY else "")
