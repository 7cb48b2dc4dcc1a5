"""The probe of collectives of a session: who takes part, with which backend; what was measured, and what it means."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from collectors.fleet.transport import Transport, TransportError
from collectors.probes.allreduce import nccl_tests
from collectors.probes.allreduce.plan import OPERATIONS, ProbeNode, ProbePlan
from collectors.probes.allreduce.run import AllreduceProbe, describe
from collectors.probes.allreduce.run import cancelled as stopped
from collectors.samples.probes import NcclTest, ProbeFigure, ProbePair, ProbeReport
from hangtop.diagnosis.addresses import address_of, chosen_interface
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job, Node
from hangtop.diagnosis.leaf_switches import leaves_of
from hangtop.diagnosis.measured import expected, probes
from hangtop.diagnosis.node_names import folded_names
from hangtop.diagnosis.phrasing import count, listed, size
from hangtop.session.probes import LOADS, Line, Probe, ProbeRefused, ProbeResult, ProbeSession, Say, Shade
from hangtop.session.probes.square import square

BUSY_SHARE = 10
"""Per cent of utilisation, or of memory, from which a GPU counts as busy."""
STARTING = {"gloo": 2.0, "nccl": 6.0}
"""Seconds until the processes of a backend have found one another."""


def collectives_probe(session: ProbeSession, **wishes: Any) -> Probe:
    """Measure collectives between all nodes; ``wishes`` as in :func:`plan_probe`. Raises :class:`ProbeRefused`."""
    plan = plan_probe(session.job(), python=session.options.python or "", **wishes)

    async def run(say: Say) -> ProbeResult:
        at, began = time.time(), time.monotonic()
        transports, pythons = _connections(session, plan)
        try:
            report = await AllreduceProbe(plan, transports, pythons, say).run()
        except asyncio.CancelledError:
            report = stopped(plan, at, time.monotonic() - began)
        else:
            session.probed.append(report)
        return result(report, session.job())

    names = tuple(node.name for node in plan.nodes)
    seconds = STARTING[plan.backend] + 2 * plan.budget * len(plan.operations) * len(plan.sizes)
    brief = (
        f"{count(len(names), 'node')}, {listed(plan.operations, 2)} to {size(max(plan.sizes)).replace('.0 ', ' ')}, "
        f"about {5 * math.ceil(seconds / 5)} s, {plan.backend}, loads the network"
    )
    return Probe("Collective probe", brief, f"on {folded_names(names)}: {describe(plan)}", run, LOADS, names)


def plan_probe(
    job: Job, *, backend: str = "auto", names: Collection[str] | None = None, sizes: tuple[int, ...] = (),
    operations: tuple[str, ...] = (), python: str = "", force: bool = False, bisect: str = "auto",
    ranks_per_node: int = 1,
) -> ProbePlan:  # fmt: skip
    """Who takes part with what. ``auto`` is nccl where every node has idle GPUs, else gloo, which is safe beside a job.

    All nodes that were asked for take part, also those that do not answer: they will be named absent. Raises
    :class:`ProbeRefused`.
    """
    chosen = [node for name, node in sorted(job.nodes.items()) if names is None or name in names]
    if backend == "auto":
        every = list(job.nodes.values())
        backend = "nccl" if every and all(node.gpus and not busy_gpus(node) for node in every) else "gloo"
    nodes = tuple(_probe_node(job, node, backend) for node in chosen)
    if not nodes:
        raise ProbeRefused("no node to probe")
    if backend == "nccl":
        bare = [node.name for node in nodes if not node.gpus]
        if bare:
            raise ProbeRefused(f"nccl needs GPUs, and {', '.join(bare)} shows none; --backend gloo probes the network")
        busy = [gpu for node in chosen for gpu in busy_gpus(node)]
        if busy and not force:
            raise ProbeRefused(
                f"GPUs in use: {', '.join(busy[:8])}; nccl would disturb the job (--force does it anyway)"
            )
    if len(nodes) < 2 and sum(max(1, node.gpus if backend == "nccl" else ranks_per_node) for node in nodes) < 2:
        raise ProbeRefused("a collective needs two ranks: name two nodes, or one with two GPUs")
    unknown = [operation for operation in operations if operation not in OPERATIONS]
    if unknown:
        raise ProbeRefused(f"no operation {', '.join(unknown)}; there are {', '.join(OPERATIONS)}")
    plan = ProbePlan.suited(nodes, backend)
    return replace(
        plan, python=python, bisect=bisect, operations=operations or plan.operations, sizes=sizes or plan.sizes,
        ranks_per_node=ranks_per_node,
    )  # fmt: skip


def _probe_node(job: Job, node: Node, backend: str) -> ProbeNode:
    pids = [rank.process.pid for rank in job.ranks if rank.node == node.name and rank.gone_at is None]
    gpus = tuple(sorted(gpu.index for gpu in node.gpus if gpu.fault is None)) if backend == "nccl" else ()
    return ProbeNode(
        node.name, address_of(job, node), chosen_interface(job, node) or "", len(gpus), min(pids) if pids else None,
        gpus,
    )  # fmt: skip


def busy_gpus(node: Node) -> list[str]:
    """GPUs of a node that somebody uses, as ``node:index``."""
    found = []
    for gpu in node.gpus:
        latest = gpu.looks[-1].value if gpu.looks else None
        total = gpu.facts.memory_total if gpu.facts else None
        full = bool(latest and total and (latest.memory_used or 0) * 100 > total * BUSY_SHARE)
        if gpu.processes or full or (latest and (latest.utilization or 0) > BUSY_SHARE):
            found.append(f"{node.name}:{gpu.index}")
    return found


def _connections(session: ProbeSession, plan: ProbePlan) -> tuple[dict[str, Transport], dict[str, str]]:
    """The session's open connections and interpreters; a node without them will be named absent."""
    transports: dict[str, Transport] = {}
    pythons: dict[str, str] = {}
    for node in plan.nodes:
        try:
            transports[node.name], pythons[node.name] = session.transport(node.name), session.python(node.name)
        except TransportError:
            continue
    return transports, pythons


# --- what it means -----------------------------------------------------------------------------------------------


def result(report: ProbeReport, job: Job) -> ProbeResult:
    """What a report means for the nodes of a job."""
    found = probes.all_findings(report, job)
    should = expected.expected(job, report)
    return ProbeResult(
        f"Collective probe, {report.backend}, {count(report.world_size, 'rank')}, {report.took:.1f} s",
        probes.outcome(report, found), _summary(report, found),
        (*_lines(report, should), *_pair_lines(report, job)), _figures(report, should), found,
    )  # fmt: skip


def _summary(report: ProbeReport, found: Sequence[Finding]) -> str:
    if found:
        return found[0].summary
    if report.outcome != "done":
        return report.why
    best = max(report.figures, key=lambda figure: figure.busbw, default=None)
    speed = f"; {best.op} reaches {best.busbw:.3g} GB/s (busbw)" if best else ""
    return f"{report.world_size} ranks met over {report.backend}{speed}"


def _lines(report: ProbeReport, should: expected.Expected | None) -> Iterator[Line]:
    if report.figures:
        yield [(f"{'op':<15}{'bytes':>12}{'time':>12}{'algbw GB/s':>12}{'busbw GB/s':>12}  values", "dim")]
    for figure in report.figures:
        wrong = f"  wrong on rank {', '.join(map(str, figure.wrong_ranks))}" if figure.wrong_ranks else ""
        yield [*_figure(figure), (wrong or "  right", "bad" if wrong else "good")]
    if should is not None:
        best = expected.best(report)
        share, shade = "no figure is large enough to compare", "dim"
        if best is not None:
            share = f"measured {best.busbw:.3g}, {best.busbw / should.busbw:.0%}"
            shade = "bad" if best.busbw < should.least else "good"
        yield [(f"{should.of} should give {should.busbw:.3g} GB/s ({should.source}): ", "dim"), (share, shade)]  # type: ignore[list-item]
    elif report.figures:
        yield [("what the hardware should give is not known: no NVLink or HCA that says", "dim")]
    yield from _network(report)
    yield from (line for test in report.tested for line in _tested(test))
    if together := nccl_tests.across(report.tested):
        yield [(f"each node by itself; all together, where nodes may log in to one another: {together}", "dim")]


def _figure(figure: ProbeFigure) -> Line:
    head = f"{figure.op:<15}{figure.size:>12}{figure.seconds * 1e6:>9.0f} µs{figure.algbw:>12.3f}"
    return [(head, ""), (f"{figure.busbw:>12.3f}", "strong")]


def _network(report: ProbeReport) -> Iterator[Line]:
    """What NCCL said, nodes that said the same together."""
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for node, said in sorted(report.network.items()):
        alike.setdefault(tuple(sorted(said.items())), []).append(node)
    for facts, nodes in alike.items():
        said = dict(facts)
        words = [
            f"NCCL {said['version']}" if "version" in said else "NCCL",
            f"network {said.get('network', 'not said')}",
            f"GPU Direct RDMA {said.get('gdr', 'not said')}",
        ]
        words += [f"{said['channels']} channels"] if "channels" in said else []
        words += [said["devices"]] if "devices" in said else []
        shade: Shade = "middling" if said.get("network", "").lower().startswith("socket") else ""
        yield [(f"{', '.join(nodes)}: ", "dim"), ("; ".join(words), shade)]


def _tested(test: NcclTest) -> Iterator[Line]:
    wrong = f", {test.wrong} wrong elements" if test.wrong else ""
    why = f": {test.why}" if test.why else ""
    yield []
    yield [(f"{test.node} by itself: {test.program}, {test.ranks} GPUs{wrong}{why}", "bad" if wrong or why else "dim")]
    yield from map(_figure, test.figures)


def _pair_lines(report: ProbeReport, job: Job) -> Iterator[Line]:
    """The square of pairs, then what it does not show: round trips, what was lost, what went wrong."""
    if report.pairs:
        yield []
        yield from square(report.pairs, leaves_of(job, {rank.node for rank in report.ranks}))
    for pair in report.pairs:
        lost = f"{pair.retransmitted:.1%} sent again" if pair.retransmitted and pair.retransmitted >= 0.01 else ""
        words = [word for word in (lost, pair.error) if word]
        if words or len(report.pairs) == 1:
            speed = "–" if pair.busbw is None else f"{pair.busbw:.3f} GB/s"
            trip = "" if pair.round_trip is None else f"{pair.round_trip * 1e6:.0f} µs"
            yield [(f"{pair.a + ' - ' + pair.b:<33}{speed:>14}{trip:>11}  ", ""), ("; ".join(words), "bad")]


def _figures(report: ProbeReport, should: expected.Expected | None) -> Mapping[str, Any]:
    wrong = {rank for figure in report.figures for rank in figure.wrong_ranks}
    best = expected.best(report)
    return {
        "backend": report.backend,
        "world_size": report.world_size,
        "results": [
            {
                "op": figure.op, "bytes": figure.size, "time_us": round(figure.seconds * 1e6, 1),
                "algbw_GBps": figure.algbw, "busbw_GBps": figure.busbw, "correct": not figure.wrong_ranks,
            }
            for figure in report.figures
        ],
        "pairs": list(map(_pair, report.pairs)),
        "ranks": [
            {"rank": rank.rank, "node": rank.node, "gpu": rank.gpu, "state": rank.state, "why": rank.why,
             "late_over_median": rank.late_over_median, "correct": rank.rank not in wrong}
            for rank in report.ranks
        ],
        "network": report.network,
        "nccl_tests": [
            {
                "node": test.node, "program": test.program, "gpus": test.ranks, "wrong": test.wrong, "error": test.why,
                "results": [{"op": one.op, "bytes": one.size, "busbw_GBps": one.busbw} for one in test.figures],
            }
            for test in report.tested
        ],
        "nccl_tests_across": nccl_tests.across(report.tested),
        "expected": None if should is None else {
            "busbw_GBps": should.busbw, "of": should.of, "source": should.source,
            "share": None if best is None else best.busbw / should.busbw,
        },
    }  # fmt: skip


def _pair(pair: ProbePair) -> dict[str, Any]:
    return {
        "a": pair.a, "b": pair.b, "busbw_GBps": pair.busbw,
        "rtt_us": None if pair.round_trip is None else round(pair.round_trip * 1e6, 1),
        "retransmitted": pair.retransmitted, "error": pair.error,
    }  # fmt: skip
