"""Panel 6: every node's connection and sources: what is known, what is not, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from hangtop.session.state.job_state import NodeState
from tui.looks.format import UNKNOWN, age, number, percent, plural, size
from tui.looks.signs import link_sign
from tui.looks.theme import Colour
from tui.ordering.filter import Value
from tui.panels.base import Fact, Place
from tui.panels.facts import node_facts
from tui.panels.table_panel import TablePanel
from tui.view_model import ViewModel
from tui.widgets.lines import Piece
from tui.widgets.table import Column


class NodesPanel(TablePanel[NodeState]):
    """The table of nodes."""

    NAME = "nodes"
    NOUN = "node"
    CAN = TablePanel.CAN | {"again"}
    FROZEN = 1

    def columns(self) -> Sequence[Column[NodeState]]:
        """Who, how connected, what it cannot tell, how it fares."""
        return node_columns(self.model)

    def rows(self) -> Sequence[NodeState]:
        """All nodes."""
        return self.model.nodes

    def node_of(self, row: NodeState) -> str:
        """Its name."""
        return row.name

    def key(self, row: NodeState) -> Hashable:
        """The name."""
        return row.name

    def blamed(self) -> Hashable:
        """The node of the first rank that the verdict names, or that it names itself."""
        node = self.model.suspected
        return None if node is None else node.name

    def is_stale(self, row: NodeState) -> bool:
        """Not responding, after having been heard."""
        return row.seen_at is not None and self.model.stale(row)

    def totals(self) -> list[Piece]:
        """How many are in which state."""
        nodes = self.kept(self.model.nodes)
        links = Counter(node.link for node in nodes)
        pieces: list[Piece] = [] if self.narrowed() else [(f" {plural(len(nodes), 'node')}", Colour.STRONG)]
        for link in ("live", "limited", "offline", "connecting", "stale", "lost"):
            if links[link]:
                glyph, colour = link_sign(link)
                pieces += [("   ", Colour.DIM), (f"{glyph} {links[link]:,} {link}", colour)]
        if bad := sum(node.bad_lines for node in nodes):
            pieces.append((f"   ▲ {plural(bad, 'line')} not understood", Colour.WARN))
        shared = self.model.names.told
        return [*pieces, *([(f"   {shared}", Colour.DIM)] if shared else [])]

    def enter(self) -> Place | None:
        """To the node's ranks."""
        row = self.table.current
        return None if row is None else Place("ranks", f"node={row.name}")

    def chosen_ranks(self) -> set[int]:
        """Ranks of the marked nodes."""
        return {
            rank.process.rank for node in self.table.chosen() for rank in node.ranks.values() if rank.gone_at is None
        }

    def facts(self, row: NodeState) -> tuple[str, list[Fact]]:
        """All that is known of the node."""
        return row.name, node_facts(row, self.model)


def _link_piece(row: NodeState) -> Piece:
    glyph, colour = link_sign(row.link)
    return f"{glyph} {row.link}", colour


def _says(row: NodeState) -> Piece:
    """Why the link is as it is; else sources that do not answer first: what is absent is no fault."""
    if row.why:
        return row.why, Colour.WARN
    if not row.sources:
        return UNKNOWN, Colour.DIM
    # by their names: they tell of themselves in any order, and nodes that are alike should look alike
    sources = sorted(row.sources.values(), key=lambda state: state.source)
    wrong = [f"{s.source} {s.state}" for s in sources if s.state in {"late", "failed"}]
    text = f"{sum(s.state == 'ok' for s in sources)} ok"
    for word, state in (("not allowed", "denied"), ("none", "absent")):
        if names := [s.source for s in sources if s.state == state]:
            text += f" · {word}: {', '.join(names)}"
    return (f"▲ {', '.join(wrong)} · {text}", Colour.WARN) if wrong else (text, Colour.TEXT)


def node_columns(model: ViewModel) -> Sequence[Column[NodeState]]:
    """Columns over one model."""

    def used_memory(row: NodeState) -> Value:
        if row.load is None or row.host is None or not row.host.memory_total:
            return None
        return 100.0 * (1 - row.load.memory_available / row.host.memory_total)

    def used_shm(row: NodeState) -> Value:
        load = row.load
        if load is None or load.shm_used is None or not load.shm_total:
            return None
        return 100.0 * load.shm_used / load.shm_total

    def next_try(row: NodeState) -> Value:
        return "" if row.next_try is None else max(0.0, row.next_try - model.now)

    def stood(row: NodeState) -> Value:
        return model.now - row.since if row.since and row.link != "offline" else None

    def unheard(row: NodeState) -> Value:
        return None if row.link == "offline" else model.silence(row)

    return (
        Column("node", "node", 14, lambda row: row.name, most=32, colour=Colour.STRONG,
               brief=lambda row: model.names.of(row.name)),
        Column("link", "link", 12, lambda row: row.link, _link_piece),
        Column("for", "for", 6, stood, form=age, align="right", help="how long the link has been in this state"),
        Column("age", "heard", 6, unheard, form=age, align="right", help="since the last sample came"),
        Column("next", "try in", 6, next_try, form=age, align="right", help="until the next attempt to connect"),
        Column("says", "says", 16, lambda row: _says(row)[0], _says, most=60,
               help="why the link is as it is; else which sources answer"),
        Column("ranks", "ranks", 5, lambda row: sum(r.gone_at is None for r in row.ranks.values()), align="right"),
        Column("gpus", "gpus", 4, lambda row: len(row.gpus), align="right"),
        Column("load", "load", 5, lambda row: row.load.load if row.load else None,
               form=lambda value: number(value, 1), align="right",
               help="processes that run or wait for storage, over 1 min"),
        Column("mem", "mem", 4, used_memory, form=percent, align="right", help="memory in use"),
        Column("shm", "shm", 4, used_shm, form=percent, align="right", help="/dev/shm in use"),
        Column("io", "io %", 4, lambda row: row.load.pressure_io if row.load else None, form=number, align="right",
               help="share of the last 10 s in which some task waited for I/O"),
        Column("clock", "clock", 8, lambda row: row.clock_offset, form=lambda value: f"{value:+.3f}", align="right",
               help="seconds that its clock is ahead of this machine's"),
        Column("logs", "unread", 6, lambda row: sum(file.left_out for file in row.log_files.values()) or "", form=size,
               align="right", colour=Colour.WARN, help="bytes of logs that came too fast to be read"),
    )  # fmt: skip
