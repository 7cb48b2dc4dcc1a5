"""Panel 4: every HCA port and network interface: state, traffic, and which error counters grow."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from collectors.samples.location import LEVELS
from hangtop.diagnosis.rack_topology import device_of
from hangtop.session.state.job_state import InterfaceState, NodeState, PortState
from tui.looks.format import SILENT, UNKNOWN, plural, size
from tui.looks.theme import Colour
from tui.measure import grown_errors, source_is_stale
from tui.ordering.filter import Value
from tui.panels.base import Fact, Place
from tui.panels.facts import interface_facts, port_facts
from tui.panels.table_panel import TablePanel
from tui.view_model import ViewModel
from tui.widgets.lines import Piece
from tui.widgets.table import Column


class LinkRow(NamedTuple):
    """A port of an HCA or a network interface of a node: the one that is not None."""

    node: NodeState
    name: str
    port: PortState | None
    interface: InterfaceState | None


class FabricPanel(TablePanel[LinkRow]):
    """The table of ports and interfaces, HCAs first within a node."""

    NAME = "fabric"
    FROZEN = 2
    EMPTY = "no port and no interface seen yet"

    def __init__(self, model: ViewModel) -> None:
        super().__init__(model)
        self._rows: tuple[int, list[LinkRow]] = (-1, [])

    def columns(self) -> Sequence[Column[LinkRow]]:
        """Which, in what state, how fast, what was lost."""
        return fabric_columns(self.model)

    def rows(self) -> Sequence[LinkRow]:
        """Ports, then the interfaces that carry anything outside the machine."""
        roster = self.model.rows.roster
        self.table.empty = self.hint(self.EMPTY)
        if roster != self._rows[0]:
            self._rows = (roster, self._listed())
        return self._rows[1]

    def _listed(self) -> list[LinkRow]:
        rows: list[LinkRow] = []
        for node in self.model.nodes:
            rows += [LinkRow(node, name, port, None) for name, port in node.ports.items()]
            rows += [LinkRow(node, name, None, node.interfaces[name]) for name in _outward(node)]
        return rows

    def node_of(self, row: LinkRow) -> str:
        """Name of the row's node."""
        return row.node.name

    def key(self, row: LinkRow) -> Hashable:
        """Node and name."""
        return row.node.name, row.name

    def blamed(self) -> Hashable:
        """The port that the verdict names, else the first one of the node that it names, or on which its culprit is."""
        for node, name in self.model.accused_parts("ports"):
            if name in node.ports:
                return node.name, name
        suspected = self.model.suspected
        first = None if suspected is None else next(chain(suspected.ports, _outward(suspected)), None)
        return None if suspected is None or first is None else (suspected.name, first)

    def is_stale(self, row: LinkRow) -> bool:
        """Its node does not respond, or the source does not."""
        source = "fabric" if row.port is not None else "network"
        return self.model.stale(row.node) or source_is_stale(row.node, source)

    def totals(self) -> list[Piece]:
        """How many ports are up, which errors grow, how much TCP sends again."""
        kept = self.kept(self._rows[1])
        shown = [(row.node, row.port) for row in kept if row.port is not None]
        heard = [port for node, port in shown if not self.model.stale(node)]
        ports, silent, up = len(shown), len(shown) - len(heard), sum(map(_is_up, heard))
        growing = sum(bool(grown_errors(port)) for port in heard)
        nodes = {row.node.name for row in kept}
        pieces = self.shown_of("link")
        if ports:
            pieces += [
                ("  " if pieces else " ", Colour.DIM),
                (f"{up:,} of {plural(ports, 'HCA port')} up", Colour.STRONG),
            ]
        elif not pieces:
            pieces = [(" no HCA", Colour.STRONG)]
        if silent:
            pieces += [("   ", Colour.DIM), (f"◌ {silent} on nodes that do not respond", Colour.WARN)]
        if growing:
            pieces += [("   ", Colour.DIM), (f"▲ {plural(growing, 'port')} with growing errors", Colour.BAD)]
        shares = [
            (100.0 * node.retransmitted_per_s / node.segments_per_s, node.name)
            for node in self.model.nodes
            if node.segments_per_s and node.retransmitted_per_s is not None
            if not self.model.stale(node) and node.name in nodes
        ]
        if shares:
            share, worst = max(shares)
            colour = Colour.WARN if share >= 1.0 else Colour.TEXT
            pieces += [
                ("   TCP sent again ", Colour.DIM),
                (f"{share:.2f}%", colour),
                (f" at most ({worst})", Colour.DIM),
            ]
        return pieces

    def enter(self) -> Place | None:
        """To the node's ranks."""
        row = self.table.current
        return None if row is None else Place("ranks", f"node={row.node.name}")

    def details(self) -> tuple[str, list[Fact]] | None:
        """All counters of the port."""
        row = self.table.current
        if row is None:
            return None
        if row.port is not None:
            return f"{row.name} of {row.node.name}", port_facts(row.port, self.model)
        assert row.interface is not None
        return f"{row.name} of {row.node.name}", interface_facts(row.node, row.interface)


def _outward(node: NodeState) -> Iterator[str]:
    """Interfaces of a node that carry anything outside the machine."""
    return (name for name, here in node.interfaces.items() if here.facts.kind != "loopback")


def _is_up(port: PortState) -> bool:
    return port.facts.state.upper() == "ACTIVE" and port.facts.phys_state in {"LinkUp", ""}


def _both(
    port: Callable[[PortState], Value], interface: Callable[[InterfaceState], Value]
) -> Callable[[LinkRow], Value]:
    def value(row: LinkRow) -> Value:
        if row.port is not None:
            return port(row.port)
        return None if row.interface is None else interface(row.interface)

    return value


def _state_column(model: ViewModel) -> Column[LinkRow]:
    """As it is; what it was when its node was last heard is no state of it."""
    state = _both(lambda port: port.facts.state, lambda here: "up" if here.facts.up else "down")

    def value(row: LinkRow) -> Value:
        return SILENT if model.stale(row.node) else state(row)

    def show(row: LinkRow) -> Piece:
        return (f"◌ {SILENT}", Colour.WARN) if model.stale(row.node) else _state_piece(row)

    return Column("state", "state", 12, value, show, help=f"of the link; {SILENT}: its node does not respond")


def _state_piece(row: LinkRow) -> Piece:
    if row.port is not None:
        facts = row.port.facts
        if _is_up(row.port):
            return "● ACTIVE", Colour.OK
        return f"✖ {facts.state} {facts.phys_state}", Colour.BAD
    assert row.interface is not None
    return ("● up", Colour.OK) if row.interface.facts.up else ("○ down", Colour.DIM)


def _errors(row: LinkRow) -> Value:
    if row.port is not None:
        return sum(grown_errors(row.port).values())
    return None if row.interface is None else row.interface.drops_grown


def _errors_piece(row: LinkRow) -> Piece:
    if row.port is not None:
        grown = grown_errors(row.port)
        if grown:
            return "▲ " + ", ".join(f"{name} +{by}" for name, by in grown.items()), Colour.BAD
    elif row.interface is not None and row.interface.drops_grown:
        return f"▲ dropped +{row.interface.drops_grown}", Colour.WARN
    return "none", Colour.DIM


def _leaf(row: LinkRow) -> Value:
    place = device_of(row.node.locations.values(), "leaf")
    return None if place is None else ", ".join(sorted(place.names))


def _place(row: LinkRow) -> Value:
    known = ((level, device_of(row.node.locations.values(), level)) for level in LEVELS if level != "leaf")
    return ", ".join(f"{level} {' '.join(sorted(place.names))}" for level, place in known if place is not None)


def _traffic(counter: str) -> Callable[[PortState], Value]:
    return lambda port: port.rate(counter)


def fabric_columns(model: ViewModel) -> Sequence[Column[LinkRow]]:
    """Columns of ports and interfaces; data rates are bytes a second."""
    received = _both(_traffic("port_rcv_data"), lambda here: here.received_per_s)
    sent = _both(_traffic("port_xmit_data"), lambda here: here.sent_per_s)
    return (
        Column("node", "node", 12, lambda row: row.node.name, most=32, colour=Colour.INFO,
               brief=lambda row: model.names.of(row.node.name)),
        Column("port", "port", 12, lambda row: row.name, colour=Colour.STRONG, also=("name",)),
        _state_column(model),
        Column("rate", "rate", 5, _both(lambda p: p.facts.rate, lambda i: i.facts.speed and i.facts.speed / 1000),
               form=lambda value: f"{value:g}", align="right", help="Gb/s that the link is trained to"),
        Column("in", "in/s", 6, received, form=size, align="right", help="bytes a second"),
        Column("out", "out/s", 6, sent, form=size, align="right", help="bytes a second"),
        Column("errors", "errors grown", 13, _errors, _errors_piece, most=40,
               help="counters that grew while it was watched"),
        Column("layer", "layer", 10, _both(lambda p: p.facts.link_layer, lambda i: i.facts.kind)),
        Column("wait", "wait/s", 6, _both(_traffic("port_xmit_wait"), lambda _: ""), form=size, align="right",
               help="ticks a second in which data waited for credit: pressure, not an error"),
        Column("mtu", "mtu", 6, _both(lambda _: "", lambda i: i.facts.mtu), align="right",
               help="bytes of a packet at most"),
        Column("phys", "physical", 9, _both(lambda p: p.facts.phys_state, lambda _: ""), most=16),
        Column("netdev", "netdev", 8, _both(lambda p: p.facts.netdev, lambda i: i.facts.name), most=15),
        Column("addresses", "addresses", 12, _both(lambda _: "", lambda i: " ".join(i.facts.addresses)), most=40),
        Column("firmware", "firmware", 9, _both(lambda p: p.facts.firmware or UNKNOWN, lambda _: ""), most=16),
        Column("leaf", "leaf", 6, _leaf, most=20, help="switch that it hangs at, by Slurm, Kubernetes or --topology"),
        Column("place", "place", 6, _place, most=30,
               help="what else its node hangs at: NVLink domain, rack, block, spine"),
        Column("source", "source", 10, _both(lambda p: p.source, lambda _: "proc"),
               help="what the counters are read with"),
    )  # fmt: skip
