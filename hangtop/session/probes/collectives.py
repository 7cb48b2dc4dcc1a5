"""The all_reduce probe of a session: which nodes take part, with which backend; the figures and their meaning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collectors.probes.allreduce.run import AllreduceProbe, ProbePlan, describe
from collectors.probes.allreduce.worker import ProbeNode
from collectors.samples.probes import ProbeFigure, ProbePair, ProbeReport
from hangtop.diagnosis import probes
from hangtop.diagnosis.addresses import address_of, chosen_interface
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Node
from hangtop.diagnosis.phrasing import count, folded_names, size
from hangtop.session.probes import Probe, ProbeRefused, ProbeResult, Say, nodes_of, table
from hangtop.session.probes.pairs import LOADS, measured
from hangtop.session.session import Session

TITLE = "Collective probe"

HEADS = ("all_reduce of", "time", "algbw GB/s", "busbw GB/s", "values")
BUSY_SHARE = 10
"""Ours: per cent of utilisation, or of memory, above which a GPU counts as busy."""
SLOWEST_PAIRS = 32
"""Pairs that are shown: if a node is bad, the slowest pairs all contain it."""
SECONDS = {"gloo": 5, "nccl": 10}
"""Approximate duration in seconds with few nodes."""


def collectives_probe(session: Session, *, backend: str = "auto", force: bool = False) -> Probe:
    """Measure all_reduce between all nodes; see :func:`plan_probe`. Raises :class:`ProbeRefused`."""
    plan = plan_probe(session.job(), backend=backend, python=session.options.python or "", force=force)

    async def run(say: Say) -> ProbeResult:
        access = {node.name: node for node in nodes_of(session, session.job())[0]}
        report = await AllreduceProbe(plan, access, say).run()
        session.probed.append(report)
        return result(report)

    names = tuple(node.name for node in plan.nodes)
    largest, seconds = size(max(plan.extent.whole.sizes)).replace(".0 ", " "), SECONDS[plan.backend]
    brief = f"{count(len(names), 'node')}, all_reduce to {largest}, about {seconds} s, {plan.backend}"
    command = f"on {folded_names(names)}: {describe(plan)}"
    return Probe(TITLE, f"{brief}, loads the network", command, run, LOADS, names)


def plan_probe(job: Job, *, backend: str = "auto", python: str = "", force: bool = False) -> ProbePlan:
    """Which nodes take part, and how. ``auto`` is nccl if all GPUs are idle and every node has some, else gloo.

    gloo is safe next to a job. Nodes that do not answer are reported absent. Raises :class:`ProbeRefused`.
    """
    there = [node for _, node in sorted(job.nodes.items())]
    busy = [gpu for node in there for gpu in busy_gpus(node)]
    bare = [node.name for node in there if not node.gpus]
    if backend == "auto":
        backend = "gloo" if busy or bare else "nccl"
    if backend == "nccl" and bare:
        raise ProbeRefused(f"nccl needs GPUs, and {', '.join(bare)} shows none; --backend gloo probes the network")
    if backend == "nccl" and busy and not force:
        raise ProbeRefused(f"GPUs in use: {', '.join(busy[:8])}; nccl would disturb the job (--force does it anyway)")
    nodes = tuple(_probe_node(job, node, backend) for node in there)
    if sum(node.ranks for node in nodes) < 2:
        raise ProbeRefused("a collective needs two ranks: name two nodes, or one with two GPUs")
    return ProbePlan(nodes, backend, python)


def _probe_node(job: Job, node: Node, backend: str) -> ProbeNode:
    pids = [rank.process.pid for rank in job.ranks if rank.node == node.name and rank.gone_at is None]
    gpus = tuple(sorted(gpu.index for gpu in node.gpus.values() if gpu.fault is None)) if backend == "nccl" else ()
    interface = chosen_interface(job, node) or ""
    return ProbeNode(node.name, address_of(job, node), interface, min(pids) if pids else None, gpus)


def busy_gpus(node: Node) -> list[str]:
    """GPUs of a node that are in use, as ``node:index``."""
    found = []
    for gpu in node.gpus.values():
        latest = gpu.samples[-1].value if gpu.samples else None
        total = gpu.facts.memory_total if gpu.facts else None
        full = bool(latest and total and (latest.memory_used or 0) * 100 > total * BUSY_SHARE)
        if gpu.processes or full or (latest and (latest.utilization or 0) > BUSY_SHARE):
            found.append(f"{node.name}:{gpu.index}")
    return found


# --- what it means -----------------------------------------------------------------------------------------------


def result(report: ProbeReport) -> ProbeResult:
    """The result for a report."""
    best = max(report.figures, key=lambda figure: figure.busbw, default=None)
    speed = f"; all_reduce reaches {best.busbw:.3g} GB/s (busbw)" if best else ""
    figures = {
        "backend": report.backend, "world_size": report.world_size,
        "results": [figure._asdict() for figure in report.figures],
        "pairs": [pair._asdict() for pair in report.pairs],
        "ranks": [rank._asdict() for rank in report.ranks],
        "network": report.network,
        "nccl_tests": [test._asdict() | {"figures": [one._asdict() for one in test.figures]} for test in report.tested],
    }  # fmt: skip
    return measured(
        f"{TITLE}, {report.backend}, {count(report.world_size, 'rank')}, {report.took:.1f} s", report,
        probes.findings(report), f"{report.world_size} ranks met over {report.backend}{speed}",
        _lines(report), figures,
    )  # fmt: skip


def _lines(report: ProbeReport) -> Iterator[str]:
    yield from table(HEADS, map(_figure, report.figures))
    alike: dict[str, list[str]] = {}
    for node, said in sorted(report.network.items()):
        facts = [f"NCCL {said.get('version', '')}".strip(), f"network {said.get('network', 'not said')}"]
        facts += [f"GPU Direct RDMA {said['gdr']}"] if "gdr" in said else []
        alike.setdefault("; ".join(facts), []).append(node)
    yield from (f"{folded_names(nodes)}: {text}" for text, nodes in alike.items())
    for test in report.tested:
        wrong = f", {test.wrong} wrong elements" if test.wrong else ""
        yield f"{test.node} by itself: nccl-tests, {test.ranks} GPUs{wrong}{f': {test.why}' if test.why else ''}"
        yield from table(HEADS, map(_figure, test.figures))
    yield from pair_lines(report.pairs)


def _figure(figure: ProbeFigure) -> tuple[str, ...]:
    wrong = f"wrong on rank {', '.join(map(str, figure.wrong_ranks))}" if figure.wrong_ranks else "right"
    time = f"{figure.seconds * 1e6:.0f} µs"
    return str(figure.size), time, f"{figure.algbw:.3f}", f"{figure.busbw:.3f}", wrong


def pair_lines(pairs: Sequence[ProbePair]) -> Iterator[str]:
    """Lines with the bandwidth of each pair of nodes, slowest first."""
    slowest = sorted(pairs, key=lambda pair: pair.busbw or 0.0)[:SLOWEST_PAIRS]
    yield from table(
        ("pair", "GB/s", ""),
        [(f"{one.a} - {one.b}", "–" if one.busbw is None else f"{one.busbw:.3g}", one.error) for one in slowest],
    )
