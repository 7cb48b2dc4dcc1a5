"""Panel 4: every HCA port and network interface: state, traffic, growing error counters."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from hangtop.diagnosis.node import NetworkInterface, Node, Port
from hangtop.diagnosis.phrasing import count
from tui.looks.format import SILENT, size
from tui.looks.theme import Colour
from tui.measure import grown_errors, source_is_stale
from tui.ordering.filter import Value
from tui.ordering.rows import ranks_on_node
from tui.panels.base import Place
from tui.panels.facts import link_facts
from tui.panels.table_panel import TableSpec, counts
from tui.view_model import ViewModel
from tui.widgets.columns import Column
from tui.widgets.lines import Piece


class LinkRow(NamedTuple):
    """A port of an HCA or a network interface of a node."""

    node: Node
    name: str
    link: Port | NetworkInterface


def _blamed(model: ViewModel) -> Hashable:
    """The port that the verdict names, else the first port of the suspected node."""
    named = ((node.name, name) for node, name in model.accused_parts("ports") if name in node.ports)
    suspected = model.suspected
    first = None if suspected is None else next(((suspected.name, name) for name in _links(suspected)), None)
    return next(named, first)


def _totals(model: ViewModel, rows: Sequence[LinkRow]) -> list[Piece]:
    """Numbers of ports that are up, silent or with growing errors; the worst share of TCP retransmissions."""
    shown = [(row.node, row.link) for row in rows if isinstance(row.link, Port)]
    heard = [port for node, port in shown if not model.stale(node)]
    silent, growing = len(shown) - len(heard), sum(bool(grown_errors(port)) for port in heard)
    up = f" {sum(map(_is_up, heard)):,} of {count(len(shown), 'HCA port')} up" if shown else " no HCA"
    shares = [
        (100.0 * node.retransmitted_per_s / node.segments_per_s, node.name)
        for node in {row.node.name: row.node for row in rows}.values()
        if node.segments_per_s and node.retransmitted_per_s is not None and not model.stale(node)
    ]
    share, worst = max(shares, default=(0.0, ""))
    tcp = f"TCP retransmits up to {share:.2f}% ({worst})"
    return [
        (up, Colour.STRONG),
        *counts(
            [
                (silent, f"◌ {silent} on nodes that do not respond", Colour.WARN),
                (growing, f"▲ {count(growing, 'port')} with growing errors", Colour.BAD),
                (len(shares), tcp, Colour.WARN if share >= 1.0 else Colour.TEXT),
            ]
        ),
    ]


def _links(node: Node) -> dict[str, Port | NetworkInterface]:
    """Ports of a node, and its interfaces except loopback."""
    outward = {name: here for name, here in node.interfaces.items() if here.facts.kind != "loopback"}
    return {**node.ports, **outward}


def _is_up(port: Port) -> bool:
    return port.facts.state.upper() == "ACTIVE" and port.facts.phys_state in {"LinkUp", ""}


def _either(
    port: Callable[[Port], Value], interface: Callable[[NetworkInterface], Value]
) -> Callable[[LinkRow], Value]:
    return lambda row: port(row.link) if isinstance(row.link, Port) else interface(row.link)


def _errors(row: LinkRow) -> Piece:
    if isinstance(row.link, Port):
        grown = ", ".join(f"{name} +{by}" for name, by in grown_errors(row.link).items())
        return (f"▲ {grown}", Colour.BAD) if grown else ("none", Colour.DIM)
    dropped = row.link.drops_grown
    return (f"▲ dropped +{dropped}", Colour.WARN) if dropped else ("none", Colour.DIM)


def fabric_columns(model: ViewModel) -> Sequence[Column[LinkRow]]:
    """Columns of ports and interfaces; data rates in bytes per second."""

    def state(row: LinkRow) -> Piece:
        """The present state; ``silent`` if the node does not respond."""
        if model.stale(row.node):
            return f"◌ {SILENT}", Colour.WARN
        if isinstance(row.link, Port):
            facts = row.link.facts
            return ("● ACTIVE", Colour.OK) if _is_up(row.link) else (f"✖ {facts.state} {facts.phys_state}", Colour.BAD)
        return ("● up", Colour.OK) if row.link.facts.up else ("○ down", Colour.DIM)

    return (
        Column("node", "node", 12, lambda row: row.node.name, most=32, colour=Colour.INFO),
        Column("port", "port", 12, lambda row: row.name, colour=Colour.STRONG),
        Column("state", "state", 12, lambda row: state(row)[0][2:], state,
               help=f"state of the link; {SILENT}: its node does not respond"),
        Column("rate", "rate", 5, _either(lambda p: p.facts.rate, lambda i: i.facts.speed and i.facts.speed / 1000),
               form=lambda value: f"{value:g}", align="right", help="negotiated Gb/s of the link"),
        Column("in", "in/s", 6, lambda row: row.link.received_per_s, form=size, align="right",
               help="bytes per second"),
        Column("out", "out/s", 6, lambda row: row.link.sent_per_s, form=size, align="right", help="bytes per second"),
        Column("errors", "errors grown", 13, _either(lambda p: sum(grown_errors(p).values()), lambda i: i.drops_grown),
               _errors, most=40, help="error counters that grew while watched"),
        Column("wait", "wait/s", 6, _either(lambda p: p.rate("port_xmit_wait"), lambda _: ""), form=size, align="right",
               help="ticks per second in which data waited for credit: congestion, not an error"),
    )  # fmt: skip


FABRIC = TableSpec(
    name="fabric",
    noun="link",
    columns=fabric_columns,
    rows=lambda model: [LinkRow(node, name, link) for node in model.nodes for name, link in _links(node).items()],
    key=lambda row: (row.node.name, row.name),
    node=lambda row: row.node.name,
    ranks=lambda _, row: ranks_on_node(row.node),
    stale=lambda model, row: (
        model.stale(row.node) or source_is_stale(row.node, "fabric" if isinstance(row.link, Port) else "network")
    ),
    facts=lambda model, row: (f"{row.name} of {row.node.name}", link_facts(row.node, row.link, model)),
    enter=lambda _, row: Place("ranks", f"node={row.node.name}"),
    blamed=_blamed,
    totals=_totals,
    empty=lambda model: model.hint("no port and no interface seen yet"),
)
"""Panel 4, HCAs first within a node."""
