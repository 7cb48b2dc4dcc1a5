"""The answer of a probe of collectives as lines: figures, what they should be, the square of pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collectors.probes.allreduce import nccl_tests
from collectors.samples.probes import NcclTest, ProbeFigure, ProbePair
from hangtop.diagnosis.measured import expected
from hangtop.diagnosis.node_order import BY_NAME
from hangtop.session.probed.answer import Probed
from hangtop.session.probed.heat import heat_map
from hangtop.session.probed.shades import Line, Shade


def answer_lines(answer: Probed, *, by_place: bool = True) -> Iterator[Line]:
    """Everything but outcome and findings; ``by_place``: nodes of one leaf together, where that is known."""
    report = answer.report
    if report.figures:
        yield [(f"{'op':<15}{'bytes':>12}{'time':>12}{'algbw GB/s':>12}{'busbw GB/s':>12}  values", "dim")]
    yield from map(_figure, report.figures)
    yield from _beside(answer)
    yield from _network(answer)
    yield from (line for test in report.tested for line in _tested(test))
    if together := nccl_tests.across(report.tested):
        yield [(f"each node by itself; all together, where nodes may log in to one another: {together}", "dim")]
    if report.pairs:
        yield []
        yield from heat_map(report.pairs, answer.arranged if by_place else BY_NAME)
        yield from _pairs(report.pairs)


def _figure(figure: ProbeFigure) -> Line:
    line: Line = [
        (f"{figure.op:<15}{figure.size:>12}{figure.seconds * 1e6:>9.0f} µs{figure.algbw:>12.3f}", ""),
        (f"{figure.busbw:>12.3f}", "strong"),
    ]
    if figure.wrong_ranks:
        return [*line, (f"  wrong on rank {', '.join(map(str, figure.wrong_ranks))}", "bad")]
    return [*line, ("  right", "good")]


def _beside(answer: Probed) -> Iterator[Line]:
    """What was measured beside what the hardware should give."""
    found, report = answer.expected, answer.report
    best = expected.best(report, found)
    if found is not None:
        share = "no figure is large enough to compare"
        shade: Shade = "dim"
        if best is not None:
            share = f"measured {best.busbw:.3g}, {best.busbw / found.busbw:.0%}"
            shade = "bad" if best.busbw < found.share * found.busbw else "good"
        yield [(f"{found.of} should give {found.busbw:.3g} GB/s ({found.source}): ", "dim"), (share, shade)]
    elif report.figures:
        yield [("what the hardware should give is not known: no NVLink, HCA or physical interface that says", "dim")]


def _network(answer: Probed) -> Iterator[Line]:
    """What NCCL said, nodes that said the same together."""
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for node, said in sorted(answer.report.network.items()):
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
        socket = said.get("network", "").lower().startswith("socket")
        yield [(f"{', '.join(nodes)}: ", "dim"), ("; ".join(words), "middling" if socket else "")]


def _tested(test: NcclTest) -> Iterator[Line]:
    yield []
    wrong = "" if not test.wrong else f", {test.wrong} wrong elements"
    shade: Shade = "bad" if test.wrong or test.why else "dim"
    yield [
        (f"{test.node} by itself: {test.program}, {test.ranks} GPUs{wrong}{': ' + test.why if test.why else ''}", shade)
    ]
    for figure in test.figures:
        yield [(f"{figure.op:<15}{figure.size:>12}{figure.seconds * 1e6:>9.0f} µs{figure.algbw:>12.3f}", ""),
               (f"{figure.busbw:>12.3f}", "strong")]  # fmt: skip


def _pairs(pairs: Sequence[ProbePair]) -> Iterator[Line]:
    """What the square does not show: round trips, what was lost, what went wrong."""
    for pair in pairs:
        lost = f"{pair.retransmitted:.1%} sent again" if pair.retransmitted and pair.retransmitted >= 0.01 else ""
        words = [word for word in (lost, pair.error) if word]
        if words or len(pairs) == 1:
            speed = "–" if pair.busbw is None else f"{pair.busbw:.3f} GB/s"
            trip = "" if pair.round_trip is None else f"{pair.round_trip * 1e6:.0f} µs"
            yield [(f"{pair.a + ' - ' + pair.b:<33}{speed:>14}{trip:>11}  ", ""), ("; ".join(words), "bad")]
