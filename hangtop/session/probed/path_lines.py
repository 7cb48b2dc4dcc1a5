"""The answer of a path probe as lines: every direction, the square of throughputs, how nodes see each other."""

from __future__ import annotations

from collections.abc import Iterator

from collectors.samples.asked import PathFigure
from hangtop.diagnosis.measured import surroundings
from hangtop.diagnosis.measured.probes import LOST_SHARE
from hangtop.diagnosis.node_order import BY_NAME, Arrangement
from hangtop.session.asking.paths import PathResult
from hangtop.session.probed.heat import heat_map
from hangtop.session.probed.shades import Line, Piece, Shade

NAME = 34
WIDTHS = (10, 12, 7, 9, 9)


def path_lines(result: PathResult, arranged: Arrangement = BY_NAME) -> Iterator[Line]:
    """Everything but outcome and findings; the square in the order of ``arranged``."""
    if result.figures:
        heads = ("connect", "round trip", "MTU", "GB/s", "resent")
        titles = "".join(title.rjust(width) for title, width in zip(heads, WIDTHS, strict=True))
        yield [(f"{'path':<{NAME}}{titles}  by", "dim")]
    yield from map(_figure, sorted(result.figures))
    squares = list(heat_map(result.report.pairs, arranged))
    if squares:
        yield []
        yield from squares
    yield []
    for name, (interface, address) in result.interfaces.items():
        taken: Piece = (interface, "") if interface else ("no interface: none fits", "bad")
        yield [(f"{name:<{NAME}}NCCL and gloo would take ", ""), taken, (f" at {address}", "")]
    for ping in result.pings():
        told = ping.error or f"{ping.received} of {ping.sent} came back, {ping.mean_ms} ms"
        lost: Shade = "middling" if ping.error or ping.received != ping.sent else ""
        yield [(f"{ping.a + ' → ' + ping.address:<{NAME}}ping: ", ""), (told, lost)]
    for route in surroundings.routes(result.seen):
        if route.why:
            yield [(f"{route.a + ' - ' + route.b:<{NAME}}route: ", ""), (route.why, "middling")]


def _figure(figure: PathFigure) -> Line:
    narrow = figure.mtu is not None and figure.local_mtu is not None and figure.mtu < figure.local_mtu
    lossy = (figure.retransmitted or 0.0) > LOST_SHARE
    cells: tuple[Piece, ...] = (
        ("–" if figure.connect is None else f"{figure.connect * 1e6:.0f} µs", ""),
        ("–" if figure.round_trip is None else f"{figure.round_trip * 1e6:.0f} µs", ""),
        ("–" if figure.mtu is None else str(figure.mtu), "bad" if narrow else ""),
        ("–" if figure.throughput is None else f"{figure.throughput / 1e9:.3f}", "strong"),
        ("–" if figure.retransmitted is None else f"{figure.retransmitted:.2%}", "bad" if lossy else ""),
    )
    by = figure.method if figure.throughput is not None else ""
    line: Line = [(f"{figure.a + ' → ' + figure.b:<{NAME}}", "")]
    line += [(text.rjust(width), shade) for (text, shade), width in zip(cells, WIDTHS, strict=True)]
    return [*line, (f"  {by}", "dim"), (f"  {figure.error}" if figure.error else "", "bad")]
