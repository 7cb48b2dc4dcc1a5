"""What the nodes' hardware should give a collective, and whether what was measured is clearly under it.

Bus bandwidths of a large all_reduce over NCCL, as nccl-tests define it, in GB/s (1e9 bytes), as others published them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from collectors.samples.fabric import PortFacts
from collectors.samples.probes import ProbeFigure, ProbeReport
from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.job import Job, Node

LARGE = 256 << 20
"""Ours: bytes from which on the published curves of eight GPUs are within a tenth of their end."""
CLEARLY_UNDER = 0.6
"""Ours: of the expected; published figures of tuned and untuned machines of one kind differ by a third."""
NVLINK: tuple[tuple[str, str, int, float, str], ...] = (
    (r"\bA100-SXM", "A100 over NVLink 3", 8, 228.0, "Azure's node health checks, ND A100 v4"),
    (r"\bH100\b(?!.*(?:PCIe|NVL))", "H100 over NVLink 4", 8, 460.0, "Azure's node health checks, ND H100 v5"),
    (r"\bG?H200\b(?!.*(?:PCIe|NVL))", "H200 over NVLink 4", 8, 432.0, "Azure's node health checks, ND H200 v5"),
    (r"\bGB200\b", "GB200 over NVLink 5", 4, 432.0, "Azure's node health checks, ND GB200 v6"),
    (r"\bB200\b", "B200 over NVLink 5", 8, 800.0, "NVIDIA/nccl issue 1807 (830 measured)"),
)
"""nvidia-smi's name, what it is, least number of GPUs of one node for which the figure holds, busbw, source."""
INFINIBAND: dict[float, tuple[str, float, str]] = {
    100.0: ("EDR", 12.2, "NVIDIA/nccl-tests issue 29"),
    200.0: ("HDR", 24.0, "NVIDIA/nccl issues 412 and 1576 (8 cards: 192)"),
    400.0: ("NDR", 48.0, "NVIDIA/nccl-tests issue 267"),
    800.0: ("XDR", 96.0, "twice NDR; no published figure at hand"),
}
"""A port's share of the busbw of all ports, by its Gb/s in sysfs."""
ROCE_SHARE = 0.85
"""Of the line rate, for RoCE: a little over 0.75 of 8 × 100 Gb/s was seen (NVIDIA/nccl issue 495)."""
WORTH_USING = 25.0
"""Gb/s: slower ports are for management."""


class Expected(NamedTuple):
    """What a large all_reduce should reach."""

    busbw: float
    """GB/s."""
    of: str
    """Hardware that sets it."""
    source: str

    @property
    def least(self) -> float:
        """Busbw under which a figure is clearly too low."""
        return CLEARLY_UNDER * self.busbw


def expected(job: Job, report: ProbeReport) -> Expected | None:
    """What the nodes that took part should give together; None where no table says anything of their hardware.

    The slowest of them decides.
    """
    names = sorted({rank.node for rank in report.ranks if rank.rank >= 0})
    nodes = [job.nodes[name] for name in names if name in job.nodes]
    if not nodes or len(nodes) < len(names) or report.backend != "nccl":
        return None
    inside = _least([_over_nvlink(node, report) for node in nodes])
    if len(nodes) == 1:
        return inside
    between = _least([_between(node) for node in nodes])
    if report.world_size == len(nodes):
        return between  # one GPU a node: nothing goes over NVLink
    return _least([between, inside])


def best(report: ProbeReport) -> ProbeFigure | None:
    """The all_reduce figure that may be compared with what is expected; None when none is large enough."""
    comparable = [figure for figure in report.figures if figure.op == "all_reduce" and figure.size >= LARGE]
    return max(comparable, key=lambda figure: figure.busbw, default=None)


def bandwidth_low(job: Job, report: ProbeReport) -> Iterator[Finding]:
    """bandwidth_low: the best all_reduce of a large buffer is clearly under what GPUs and ports should give."""
    found, figure = expected(job, report), best(report)
    if found is None or figure is None or figure.busbw >= found.least:
        return
    sockets = [name for name, said in sorted(report.network.items()) if said.get("network", "").startswith("Socket")]
    why = f"; NCCL goes over plain sockets on {', '.join(sockets)}" if sockets else ""
    yield Finding(
        "bandwidth_low", "warning", 0.75,
        f"all_reduce reaches {figure.busbw:.3g} GB/s (busbw), {figure.busbw / found.busbw:.0%} of the "
        f"{found.busbw:.3g} that {found.of} should give{why}",
        nodes=tuple(sorted({rank.node for rank in report.ranks if rank.rank >= 0})),
        evidence=(
            Evidence(Observer.PROBE, f"{report.backend} probe", report.at,
                     f"{figure.op} of {figure.size} bytes: busbw {figure.busbw:.3g} GB/s"),
            Evidence(Observer.CONTEXT, "table of links", None, f"{found.of}: {found.busbw:.3g} GB/s ({found.source})"),
        ),
        advice="Look for NCCL_IB_DISABLE, for a missing plugin or libibverbs in the container, at NCCL_IB_HCA and at "
        "the rights on /dev/infiniband." if sockets else "No node stands out: look at what all share. GPU Direct RDMA, "
        "MTU, NCCL_* settings that limit channels or cards, other traffic, PCIe topology (nvidia-smi topo -m).",
    )  # fmt: skip


def _least(found: list[Expected | None]) -> Expected | None:
    """The smallest; None when one of them is unknown."""
    known = [each for each in found if each is not None]
    return min(known, key=lambda each: each.busbw) if known and len(known) == len(found) else None


def _over_nvlink(node: Node, report: ProbeReport) -> Expected | None:
    """By the GPUs' name; not for fewer of them than the table is about."""
    names = "; ".join({gpu.facts.name for gpu in node.gpus if gpu.facts is not None})
    ranks = sum(rank.node == node.name and rank.rank >= 0 for rank in report.ranks)
    rows = (row for row in NVLINK if re.search(row[0], names) and ";" not in names and ranks >= row[2])
    return next((Expected(busbw, f"{ranks} × {title}", source) for _, title, _, busbw, source in rows), None)


def _between(node: Node) -> Expected | None:
    """By the fastest ports, one a GPU at most."""
    cards = _active_cards(node)
    if not cards:
        return None
    top = max(card.rate or 0.0 for card in cards)
    fastest = [card for card in cards if card.rate == top][: max(1, len(node.gpus))]
    layer = fastest[0].link_layer
    roce = (f"{layer} of {top:g} Gb/s", ROCE_SHARE * top / 8, "line rate less headers; NVIDIA/nccl issue 495")
    title, each, source = INFINIBAND.get(top, roce) if layer == "InfiniBand" else roce
    return Expected(len(fastest) * each, f"{len(fastest)} × {title}", source)


def _active_cards(node: Node) -> list[PortFacts]:
    """Active ports that are worth using."""
    return [
        port.facts for port in node.ports if port.facts.state == "ACTIVE" and (port.facts.rate or 0.0) >= WORTH_USING
    ]
