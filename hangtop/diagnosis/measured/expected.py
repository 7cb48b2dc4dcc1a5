"""What the nodes' hardware should give a collective, and whether what was measured is clearly under it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from collectors.samples.probes import ProbeFigure, ProbeReport
from hangtop.diagnosis.addresses import chosen_interface
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.job import Job, Node
from hangtop.diagnosis.tables import links


@dataclass(frozen=True, slots=True)
class Expected:
    """What a large all_reduce should reach."""

    busbw: float
    """GB/s."""
    of: str
    """Hardware that sets it."""
    source: str
    least_size: int
    """Bytes from which on a figure may be compared with it."""
    share: float
    """Of it, under which a figure is clearly too low."""


def expected(job: Job, report: ProbeReport) -> Expected | None:
    """What the nodes that took part should give together; None where no table says anything of their hardware.

    The slowest of them decides. Virtual interfaces and loopback have no speed of their own: what the kernel says of a
    veth is made up.
    """
    names = sorted({rank.node for rank in report.ranks if rank.rank >= 0})
    nodes = [job.nodes[name] for name in names if name in job.nodes]
    if not nodes or len(nodes) < len(names):
        return None
    if report.backend != "nccl":
        return _least([_over_gloo(job, node) for node in nodes]) if len(nodes) > 1 else None
    inside = _least([_over_nvlink(node, report) for node in nodes])
    if len(nodes) == 1:
        return inside
    between = _least([_between(job, node, report) for node in nodes])
    if report.world_size == len(nodes):
        return between  # one GPU a node: nothing goes over NVLink
    return _least([between, inside])


def best(report: ProbeReport, found: Expected | None) -> ProbeFigure | None:
    """The all_reduce figure that may be compared with what is expected; None when none is large enough."""
    comparable = [f for f in report.figures if f.op == "all_reduce" and found and f.size >= found.least_size]
    return max(comparable, key=lambda figure: figure.busbw, default=None)


def bandwidth_low(job: Job, report: ProbeReport) -> Iterator[Finding]:
    """bandwidth_low: the best all_reduce is clearly under what the hardware should give.

    Needs the nodes' GPUs and ports (nccl) or the speed of a physical interface (gloo), and a figure of a large buffer.
    """
    found = expected(job, report)
    figure = best(report, found)
    if found is None or figure is None or figure.busbw >= found.share * found.busbw:
        return
    share = figure.busbw / found.busbw
    yield Finding(
        "bandwidth_low", "warning", 0.75 if report.backend == "nccl" else 0.6,
        f"all_reduce reaches {figure.busbw:.3g} GB/s (busbw), {share:.0%} of the {found.busbw:.3g} that {found.of} "
        "should give",
        nodes=tuple(sorted({rank.node for rank in report.ranks if rank.rank >= 0})),
        evidence=(
            Evidence(f"{report.backend} probe", report.at,
                     f"{figure.op} of {figure.size} bytes: busbw {figure.busbw:.3g} GB/s"),
            Evidence("table of links", None, f"{found.of}: {found.busbw:.3g} GB/s ({found.source})"),
        ),
        advice="No node stands out: look at what all share. Network in use and GPU Direct RDMA, MTU, NCCL_* settings "
        "that limit channels or cards, other traffic, PCIe topology (nvidia-smi topo -m).",
    )  # fmt: skip


def socket_fallback(job: Job, report: ProbeReport) -> Iterator[Finding]:
    """network_socket_fallback: the probe's own NCCL log says Socket on nodes with active InfiniBand or RoCE ports.

    Needs the log of an nccl probe and the nodes' ports.
    """
    nodes = [
        name
        for name, said in sorted(report.network.items())
        if said.get("network", "").lower().startswith("socket") and name in job.nodes and active_cards(job.nodes[name])
    ]
    if nodes:
        yield Finding(
            "network_socket_fallback", "warning", 0.9,
            f"Socket, not IB: NCCL goes over plain sockets on {', '.join(nodes)}, which have active ports",
            nodes=tuple(nodes),
            ports=tuple(
                f"{name}:{device}/{port}" for name in nodes for device, port, _, _ in active_cards(job.nodes[name])
            ),
            evidence=tuple(
                Evidence(f"NCCL log of the probe on {name}", report.at, f"network {report.network[name]['network']}")
                for name in nodes
            ),
            advice="Look for NCCL_IB_DISABLE, for a missing plugin or libibverbs in the container, at NCCL_IB_HCA and "
            "at the rights on /dev/infiniband.",
        )  # fmt: skip


def _least(found: list[Expected | None]) -> Expected | None:
    """The smallest; None when one of them is unknown."""
    known = [each for each in found if each is not None]
    return min(known, key=lambda each: each.busbw) if known and len(known) == len(found) else None


def _over_gloo(job: Job, node: Node) -> Expected | None:
    speed = _line_rate(job, node)
    if speed is None:
        return None
    line = links.GLOO_SHARE * speed / 8000
    text = f"an interface of {speed / 1000:g} Gb/s"
    if line > links.GLOO_CEILING:
        return Expected(links.GLOO_CEILING, f"gloo, on {text},", "gloo's own ceiling", 1 << 20, links.CLEARLY_UNDER_TCP)
    return Expected(line, text, "its speed in /sys/class/net", 1 << 20, links.CLEARLY_UNDER_TCP)


def _line_rate(job: Job, node: Node) -> int | None:
    """Mb/s of the interface that the probe uses; None for virtual ones, whose speed is made up."""
    name = chosen_interface(job, node)
    for interface in node.network.interfaces:
        if interface.name == name and interface.kind in ("physical", "ipoib"):
            return interface.speed
    return None


def _over_nvlink(node: Node, report: ProbeReport) -> Expected | None:
    """By the GPUs' names; not for fewer of them than the table is about, nor where they have no link that is up."""
    names = {gpu.facts.name for gpu in node.gpus if gpu.facts is not None}
    ranks = sum(rank.node == node.name and rank.rank >= 0 for rank in report.ranks)
    nvlinks = [link for gpu in node.gpus for link in gpu.nvlinks]
    if len(names) != 1 or (nvlinks and not any(link.active for link in nvlinks)):
        return None
    (name,) = names
    row = next((row for row in links.NVLINK if row.gpu.search(name) and ranks >= row.ranks), None)
    if row is None:
        return None
    return Expected(row.busbw, f"{ranks} × {row.title}", row.source, links.LARGE, links.CLEARLY_UNDER)


def _between(job: Job, node: Node, report: ProbeReport) -> Expected | None:
    """By the ports that NCCL said it uses, else by the fastest ones, one a GPU at most."""
    said = report.network.get(node.name, {})
    if said.get("network", "").lower().startswith("socket") and not active_cards(node):
        return _over_sockets(job, node)
    listed = {device.partition("/")[0] for device in said.get("devices", "").split()}
    cards = [card for card in active_cards(node) if not listed or f"{card[0]}:{card[1]}" in listed]
    if not cards:
        return None
    top = max(rate for _, _, rate, _ in cards)
    fastest = [card for card in cards if card[2] == top][: max(1, len(node.gpus))]
    layer = fastest[0][3]
    row = next((row for row in links.INFINIBAND if row.rate == top), None) if layer == "InfiniBand" else None
    title, each, source = (
        (row.title, row.busbw, row.source)
        if row is not None
        else (f"{layer} of {top:g} Gb/s", links.ROCE_SHARE * top / 8, "line rate less headers; NVIDIA/nccl issue 495")
    )
    return Expected(len(fastest) * each, f"{len(fastest)} × {title}", source, links.LARGE, links.CLEARLY_UNDER)


def _over_sockets(job: Job, node: Node) -> Expected | None:
    speed = _line_rate(job, node)
    if speed is None:
        return None
    busbw = min(links.SOCKET_SHARE * speed / 8000, links.SOCKET_CEILING)
    return Expected(
        busbw, f"NCCL's sockets on {speed / 1000:g} Gb/s", "line rate less headers", 1 << 26, links.CLEARLY_UNDER_TCP
    )


def active_cards(node: Node) -> list[tuple[str, int, float, str]]:
    """Active ports that are worth using: device, port, Gb/s, link layer."""
    return [
        (port.facts.device, port.facts.port, port.facts.rate, port.facts.link_layer)
        for port in node.ports
        if port.facts.state == "ACTIVE" and port.facts.rate is not None and port.facts.rate >= links.WORTH_USING
    ]
