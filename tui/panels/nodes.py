"""Panel 6: every node's connection and sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import psutil

from hangtop.diagnosis.node import LinkWord, Node
from hangtop.diagnosis.phrasing import count
from tui.looks.format import UNKNOWN, age, number, percent, size
from tui.looks.signs import link_sign
from tui.looks.theme import Colour
from tui.ordering.filter import Value
from tui.ordering.rows import ranks_on_node
from tui.panels.base import Place
from tui.panels.facts import node_facts
from tui.panels.table_panel import CAN, TableSpec, counts
from tui.view_model import ViewModel
from tui.widgets.columns import Column
from tui.widgets.lines import Piece

LINKS: tuple[LinkWord, ...] = ("live", "limited", "offline", "connecting", "stale", "lost")
OWN = psutil.Process()
"""The hangtop process, for its CPU since the last draw and its memory."""


def _totals(model: ViewModel, nodes: Sequence[Node]) -> list[Piece]:
    """Numbers of nodes by state, and the cost of hangtop on this machine."""
    cost = ""
    if model.session.live:
        cost = f"   hangtop here {OWN.cpu_percent():.0f}% of a core, {size(OWN.memory_info().rss)}"
    links, bad = Counter(node.link for node in nodes), sum(node.bad_lines for node in nodes)
    signs = [(links[link], link, *link_sign(link)) for link in LINKS]
    return [
        (f" {count(len(nodes), 'node')}", Colour.STRONG),
        *counts([(number, f"{glyph} {number:,} {link}", colour) for number, link, glyph, colour in signs]),
        *counts([(bad, f"▲ {count(bad, 'line')} not decoded", Colour.WARN)]),
        (cost, Colour.DIM),
    ]


def _link_piece(row: Node) -> Piece:
    glyph, colour = link_sign(row.link)
    return f"{glyph} {row.link}", colour


def _says(row: Node) -> Piece:
    """The reason for the link's state; else the sources by state, failing ones first. An absent source is no fault."""
    if row.why:
        return row.why, Colour.WARN
    if not row.sources:
        return UNKNOWN, Colour.DIM
    # sorted by name, so that equal nodes show the same text
    sources = sorted(row.sources.values(), key=lambda state: state.source)
    wrong = [f"{s.source} {s.state}" for s in sources if s.state in {"late", "failed"}]
    text = f"{sum(s.state == 'ok' for s in sources)} ok"
    for word, state in (("not allowed", "denied"), ("none", "absent")):
        if names := [s.source for s in sources if s.state == state]:
            text += f" · {word}: {', '.join(names)}"
    text += " · narrowed" if row.hello is not None and row.hello.narrowed else ""
    return (f"▲ {', '.join(wrong)} · {text}", Colour.WARN) if wrong else (text, Colour.TEXT)


def node_columns(model: ViewModel) -> Sequence[Column[Node]]:
    """Columns of nodes."""

    def used_memory(row: Node) -> Value:
        if row.host is None or not row.host.memory_total:
            return None
        return 100.0 * (1 - row.host.memory_available / row.host.memory_total)

    def stood(row: Node) -> Value:
        return model.now - row.since if row.since and row.link != "offline" else None

    def unheard(row: Node) -> Value:
        return None if row.link == "offline" else model.silence(row)

    return (
        Column("node", "node", 14, lambda row: row.name, most=32, colour=Colour.STRONG),
        Column("link", "link", 12, lambda row: row.link, _link_piece),
        Column("for", "for", 6, stood, form=age, align="right", help="time in this state of the link"),
        Column("age", "heard", 6, unheard, form=age, align="right", help="time since the last sample"),
        Column("says", "sources", 16, lambda row: _says(row)[0], _says, most=60,
               help="sources that answer; for a node that is not live, the reason; narrowed: only a part is seen"),
        Column("ranks", "ranks", 5, lambda row: sum(r.gone_at is None for r in row.ranks.values()), align="right"),
        Column("gpus", "gpus", 4, lambda row: len(row.gpus), align="right"),
        Column("load", "load", 5, lambda row: row.host.load if row.host else None,
               form=lambda value: number(value, 1), align="right",
               help="processes that run or wait for storage, mean over 1 min"),
        Column("mem", "mem", 4, used_memory, form=percent, align="right", help="memory in use"),
        Column("io", "io %", 4, lambda row: row.host.pressure_io if row.host else None, form=number, align="right",
               help="share of the last 10 s in which a task waited for I/O"),
        Column("clock", "clock", 8, lambda row: row.clock_offset, form=lambda value: f"{value:+.3f}", align="right",
               help="seconds that its clock is ahead of this machine's"),
    )  # fmt: skip


NODES = TableSpec(
    name="nodes",
    noun="node",
    columns=node_columns,
    rows=lambda model: model.nodes,
    key=lambda row: row.name,
    node=lambda row: row.name,
    ranks=lambda _, row: ranks_on_node(row),
    stale=lambda model, row: row.seen_at is not None and model.stale(row),
    facts=lambda model, row: (row.name, node_facts(row, model)),
    enter=lambda _, row: Place("ranks", f"node={row.name}"),
    blamed=lambda model: None if model.suspected is None else model.suspected.name,
    totals=_totals,
    empty=lambda model: model.hint("no node"),
    can=CAN | {"again"},
    frozen=1,
)
"""Panel 6."""
