"""The answer of a probe of collectives as lines: figures, what they should be, what they were, the square of pairs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from collectors.probes.allreduce import nccl_tests
from collectors.samples.probes import NcclTest, ProbeFigure, ProbePair
from hangtop.diagnosis.measured import expected
from hangtop.diagnosis.node_order import BY_NAME
from hangtop.session.probed import kept
from hangtop.session.probed.answer import Probed
from hangtop.session.probed.heat import heat_map, part_maps
from hangtop.session.probed.shades import Line, Shade

CHANGED = 0.8
"""Ours: under this share of the last figure, or over its inverse, a figure is pointed out."""
FELL = 0.5
"""Ours: pairs are measured shortly, several at once, and differ by a third from time to time."""


def answer_lines(answer: Probed, *, by_place: bool = True) -> Iterator[Line]:
    """Everything but outcome and findings; ``by_place``: nodes of one leaf together, where that is known."""
    report, before = answer.report, answer.previous
    if report.figures:
        then = "" if before is None else "last time".rjust(12)
        yield [(f"{'op':<15}{'bytes':>12}{'time':>12}{'algbw GB/s':>12}{'busbw GB/s':>12}{then}  values", "dim")]
    yield from (_figure(figure, before) for figure in report.figures)
    yield from _beside(answer)
    yield from _network(answer)
    yield from (line for test in report.tested for line in _tested(test))
    if together := nccl_tests.across(report.tested):
        yield [(f"each node by itself; all together, where nodes may log in to one another: {together}", "dim")]
    if report.pairs:
        yield []
        yield from heat_map(report.pairs, answer.arranged if by_place else BY_NAME)
        yield from _pairs(answer, report.pairs)
    kind = "GPUs" if report.backend == "nccl" else "local ranks"
    for what, pairs in ((kind, report.by_gpu), ("ports", report.by_port)):
        for lines in part_maps(what, pairs):
            yield []
            yield from lines
        yield from _pairs(answer, pairs)
    for why in report.untried:
        yield [(f"not tried: {why}", "middling")]


def _figure(figure: ProbeFigure, before: kept.Previous | None) -> Line:
    line: Line = [
        (f"{figure.op:<15}{figure.size:>12}{figure.seconds * 1e6:>9.0f} µs{figure.algbw:>12.3f}", ""),
        (f"{figure.busbw:>12.3f}", "strong"),
    ]
    if before is not None:
        line.append(_then(figure.busbw, before.busbw.get((figure.op, figure.size))))
    if figure.wrong_ranks:
        return [*line, (f"  wrong on rank {', '.join(map(str, figure.wrong_ranks))}", "bad")]
    return [*line, ("  right", "good")]


def _then(now: float, before: float | None) -> tuple[str, Shade]:
    if before is None:
        return "–".rjust(12), "dim"
    return f"{before:>12.3f}", "bad" if now < CHANGED * before else "good" if now * CHANGED > before else "dim"


def _beside(answer: Probed) -> Iterator[Line]:
    """What was measured beside what the hardware should give, and beside the last time."""
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
    last = answer.previous
    known = [f for f in report.figures if last is not None and (f.op, f.size) in last.busbw]
    if last is not None and known:
        largest = max(known, key=lambda figure: figure.size)
        then = last.busbw[largest.op, largest.size]
        ago = time.strftime("%Y-%m-%d %H:%M", time.localtime(last.at))
        yield [(f"busbw {largest.busbw:.3g} GB/s, last time {then:.3g} ({ago})", _then(largest.busbw, then)[1])]
    if answer.unkept:
        yield [(f"not kept for the next time: {answer.unkept}", "middling")]


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


def _pairs(answer: Probed, pairs: Sequence[ProbePair]) -> Iterator[Line]:
    """What the square does not show: round trips, what was lost, what went wrong, what was much faster last time."""
    before = answer.previous.pairs if answer.previous is not None else {}
    for pair in pairs:
        then = before.get((pair.a, pair.b)) or before.get((pair.b, pair.a)) or 0.0
        words = [
            f"{pair.retransmitted:.1%} sent again" if pair.retransmitted and pair.retransmitted >= 0.01 else "",
            f"last time {then:.3g} GB/s" if (pair.busbw or 0.0) < FELL * then else "",
            pair.error,
        ]
        if any(words) or len(pairs) == 1:
            speed = "–" if pair.busbw is None else f"{pair.busbw:.3f} GB/s"
            trip = "" if pair.round_trip is None else f"{pair.round_trip * 1e6:.0f} µs"
            yield [
                (f"{pair.a + ' - ' + pair.b:<33}{speed:>14}{trip:>11}  ", ""),
                ("; ".join(filter(None, words)), "bad"),
            ]
