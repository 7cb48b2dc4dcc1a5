"""Panel 4: every HCA port and network interface: state, traffic, and which error counters grow."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from hangtop.session.state.job_state import InterfaceState, NodeState, PortState
from tui.looks.format import SILENT, plural, size
from tui.looks.theme import Colour
from tui.measure import grown_errors, source_is_stale
from tui.ordering.filter import Value
from tui.panels.base import Fact, Place
from tui.panels.facts import link_facts
from tui.panels.table_panel import TablePanel
from tui.view_model import ViewModel
from tui.widgets.lines import Piece
from tui.widgets.table import Column


class LinkRow(NamedTuple):
    """A port of an HCA or a network interface of a node."""

    node: NodeState
    name: str
    link: PortState | InterfaceState


class FabricPanel(TablePanel[LinkRow]):
    """The table of ports and interfaces, HCAs first within a node."""

    NAME = "fabric"
    NOUN = "link"

    def columns(self) -> Sequence[Column[LinkRow]]:
        """Which, in what state, how fast, what was lost."""
        return fabric_columns(self.model)

    def rows(self) -> Sequence[LinkRow]:
        """Ports, then the interfaces that carry anything outside the machine."""
        self.table.empty = self.hint("no port and no interface seen yet")
        return [LinkRow(node, name, link) for node in self.model.nodes for name, link in _links(node).items()]

    def node_of(self, row: LinkRow) -> str:
        """Name of the row's node."""
        return row.node.name

    def key(self, row: LinkRow) -> Hashable:
        """Node and name."""
        return row.node.name, row.name

    def blamed(self) -> Hashable:
        """The port that the verdict names, else the first one of the node that it names, or on which its culprit is."""
        named = ((node.name, name) for node, name in self.model.accused_parts("ports") if name in node.ports)
        suspected = self.model.suspected
        first = None if suspected is None else next(((suspected.name, name) for name in _links(suspected)), None)
        return next(named, first)

    def is_stale(self, row: LinkRow) -> bool:
        """Its node does not respond, or the source does not."""
        source = "fabric" if isinstance(row.link, PortState) else "network"
        return self.model.stale(row.node) or source_is_stale(row.node, source)

    def totals(self) -> list[Piece]:
        """How many ports are up, which errors grow, how much TCP sends again."""
        kept = self.kept(self.table.rows)
        shown = [(row.node, row.link) for row in kept if isinstance(row.link, PortState)]
        heard = [port for node, port in shown if not self.model.stale(node)]
        up = f" {sum(map(_is_up, heard)):,} of {plural(len(shown), 'HCA port')} up" if shown else " no HCA"
        pieces: list[Piece] = [(up, Colour.STRONG)] if shown or not self.narrowed() else []
        if silent := len(shown) - len(heard):
            pieces.append((f"   ◌ {silent} on nodes that do not respond", Colour.WARN))
        if growing := sum(bool(grown_errors(port)) for port in heard):
            pieces.append((f"   ▲ {plural(growing, 'port')} with growing errors", Colour.BAD))
        shares = [
            (100.0 * node.retransmitted_per_s / node.segments_per_s, node.name)
            for node in {row.node.name: row.node for row in kept}.values()
            if node.segments_per_s and node.retransmitted_per_s is not None and not self.model.stale(node)
        ]
        if shares:
            share, worst = max(shares)
            told = f"   TCP sent again {share:.2f}% at most ({worst})"
            pieces.append((told, Colour.WARN if share >= 1.0 else Colour.TEXT))
        return pieces

    def enter(self) -> Place | None:
        """To the node's ranks."""
        row = self.table.current
        return None if row is None else Place("ranks", f"node={row.node.name}")

    def facts(self, row: LinkRow) -> tuple[str, list[Fact]]:
        """All counters of the port."""
        kind = "port" if isinstance(row.link, PortState) else "interface"
        return f"{kind} {row.name} of {row.node.name}", link_facts(row.node, row.link, self.model)


def _links(node: NodeState) -> dict[str, PortState | InterfaceState]:
    """Ports of a node, and its interfaces that carry anything outside the machine."""
    outward = {name: here for name, here in node.interfaces.items() if here.facts.kind != "loopback"}
    return {**node.ports, **outward}


def _is_up(port: PortState) -> bool:
    return port.facts.state.upper() == "ACTIVE" and port.facts.phys_state in {"LinkUp", ""}


def _either(
    port: Callable[[PortState], Value], interface: Callable[[InterfaceState], Value]
) -> Callable[[LinkRow], Value]:
    return lambda row: port(row.link) if isinstance(row.link, PortState) else interface(row.link)


def _errors(row: LinkRow) -> Piece:
    if isinstance(row.link, PortState):
        grown = ", ".join(f"{name} +{by}" for name, by in grown_errors(row.link).items())
        return (f"▲ {grown}", Colour.BAD) if grown else ("none", Colour.DIM)
    dropped = row.link.drops_grown
    return (f"▲ dropped +{dropped}", Colour.WARN) if dropped else ("none", Colour.DIM)


def fabric_columns(model: ViewModel) -> Sequence[Column[LinkRow]]:
    """Columns of ports and interfaces; data rates are bytes a second."""

    def state(row: LinkRow) -> Piece:
        """As it is; what it was when its node was last heard is no state of it."""
        if model.stale(row.node):
            return f"◌ {SILENT}", Colour.WARN
        if isinstance(row.link, PortState):
            facts = row.link.facts
            return ("● ACTIVE", Colour.OK) if _is_up(row.link) else (f"✖ {facts.state} {facts.phys_state}", Colour.BAD)
        return ("● up", Colour.OK) if row.link.facts.up else ("○ down", Colour.DIM)

    return (
        Column("node", "node", 12, lambda row: row.node.name, most=32, colour=Colour.INFO,
               brief=lambda row: model.names.of(row.node.name)),
        Column("port", "port", 12, lambda row: row.name, colour=Colour.STRONG),
        Column("state", "state", 12, lambda row: state(row)[0][2:], state,
               help=f"of the link; {SILENT}: its node does not respond"),
        Column("rate", "rate", 5, _either(lambda p: p.facts.rate, lambda i: i.facts.speed and i.facts.speed / 1000),
               form=lambda value: f"{value:g}", align="right", help="Gb/s that the link is trained to"),
        Column("in", "in/s", 6, _either(lambda p: p.rate("port_rcv_data"), lambda i: i.received_per_s), form=size,
               align="right", help="bytes a second"),
        Column("out", "out/s", 6, _either(lambda p: p.rate("port_xmit_data"), lambda i: i.sent_per_s), form=size,
               align="right", help="bytes a second"),
        Column("errors", "errors grown", 13, _either(lambda p: sum(grown_errors(p).values()), lambda i: i.drops_grown),
               _errors, most=40, help="counters that grew while it was watched"),
        Column("layer", "layer", 10, _either(lambda p: p.facts.link_layer, lambda i: i.facts.kind)),
        Column("wait", "wait/s", 6, _either(lambda p: p.rate("port_xmit_wait"), lambda _: ""), form=size, align="right",
               help="ticks a second in which data waited for credit: pressure, not an error"),
        Column("mtu", "mtu", 6, _either(lambda _: "", lambda i: i.facts.mtu), align="right",
               help="bytes of a packet at most"),
        Column("addresses", "addresses", 12, _either(lambda _: "", lambda i: " ".join(i.facts.addresses)), most=40),
        Column("leaf", "leaf", 6, lambda row: row.node.leaf, most=20, help="switch at which the node hangs, by Slurm"),
    )  # fmt: skip
