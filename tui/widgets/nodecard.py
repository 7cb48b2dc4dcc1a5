"""The node under the cursor, and the nodes that differ from the others, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from textual.strip import Strip

from hangtop.diagnosis.finding import WaitBox
from hangtop.session.state.job_state import NodeState
from tui.figures.measure import cpu_percent, memory_percent, pulse_of, row_of
from tui.figures.rolling import Rolling
from tui.looks.format import age, number, percent, size
from tui.looks.text import cells, fit
from tui.looks.theme import Tone
from tui.ordering.rows import RankRow
from tui.scene import Scene
from tui.waits.levels import letter_of
from tui.widgets.breaking import broken
from tui.widgets.lines import Content, Lines, Piece, strip_of
from tui.widgets.links import link_glyph

APART = 5.0
"""Times the middle distance from the middle at which a node differs, …"""
LEAST = 0.12
"""… and of the scale at the least, as a share of what is most."""
LEAST_BROKEN = 20
"""Cells from which on what was found is broken rather than cut."""


class NodeCard(Lines):
    """A title, the connection, a line a rank or GPU."""

    DEFAULT_CSS = """
    NodeCard { scrollbar-size: 0 0; overflow: hidden; }
    """

    def __init__(self, scene: Scene) -> None:
        super().__init__(id="card")
        self.scene = scene
        self._content: Content = []
        self._widest = 1
        """Cells of a rank's name."""

    def feed(self, node: NodeState | None) -> None:
        """Draw another node, or the same one's latest."""
        self._content = [] if node is None else self._whole(*self._told(node))
        self.redraw()

    def _whole(self, lines: Content, found: Sequence[int]) -> Content:
        """Break the lines at the places ``found`` as far as there is room for all: the first is worth most."""
        width, spare = self.size.width, self.size.height - len(lines)
        made: Content = []
        for place, line in enumerate(lines):
            parts = broken(line, width) if place in found and width > LEAST_BROKEN else [line]
            more = len(parts) - 1 <= spare
            made += parts if more else [line]
            spare -= len(parts) - 1 if more else 0
        return made

    def _told(self, node: NodeState) -> tuple[Content, Sequence[int]]:
        """Lines, and the places of those that say what was found."""
        glyph, tone = link_glyph(node.link)
        silence = self.scene.silence(node)
        heard = "never heard" if silence is None else f"heard {age(silence)} ago"
        lines: Content = [
            [(f" {node.name} ", Tone.STRONG)],
            [(f" {glyph} {node.link} ", tone), (f"{node.why} " if node.why else "", Tone.WARN), (heard, Tone.DIM)],
        ]
        hangs = {(place.level, place.name): None for place in node.locations.values()}
        if hangs:
            lines.append([(" " + ", ".join(f"{level} {name}" for level, name in hangs), Tone.DIM)])
        verdict = self.scene.session.verdict
        found: list[int] = []
        for finding in verdict.findings if verdict is not None else ():
            if node.name in finding.nodes:
                found.append(len(lines))
                bad = Tone.BAD if finding.severity == "critical" else Tone.WARN
                lines.append([(f" {finding.kind} ", bad), (finding.summary, Tone.TEXT)])
        self._widest = max((len(f"rank {rank.process.rank}") for rank in node.ranks.values()), default=1)
        if node.gpus:
            for gpu, owners in self.scene.owners(node):
                row = row_of(gpu)
                rank = owners[0].process.rank if owners else None
                pieces = [*self._who(f"GPU {gpu.index}", rank)]
                if gpu.fault is not None:
                    pieces.append((gpu.fault.text, Tone.BAD))
                elif row is None:
                    pieces.append(("no figures", Tone.WARN))
                else:
                    pieces += [(f"{percent(row.utilization):>5}", Tone.TEXT), (f"{number(row.power):>5}W", Tone.TEXT)]
                    pieces += [(f"{number(row.temperature):>4}°", Tone.TEXT)]
                    pieces += [(f"  mem {percent(memory_percent(gpu))}", Tone.DIM)]
                lines.append(pieces)
            return lines, found
        for rank_state in node.ranks.values():
            if rank_state.gone_at is None:
                pulse = pulse_of(rank_state)
                cpu = cpu_percent(RankRow(node, rank_state).rank, node, self.scene.interval)
                lines.append(
                    [
                        *self._who("", rank_state.process.rank),
                        (f"{percent(cpu):>5} CPU", Tone.TEXT),
                        (f"  {size(None if pulse is None else pulse.rss)}", Tone.DIM),
                    ]
                )
        return lines, found

    def _who(self, what: str, rank: int | None) -> list[Piece]:
        """GPU, rank, and the letter of its box."""
        place = None if rank is None else self.scene.waiting.place_of.get(rank)
        name = "–" if rank is None else f"rank {rank}" if rank >= 0 else "rank ?"
        blamed = place is not None and self.scene.waits[place].blamed
        return [
            (f" {what:<7}" if what else " ", Tone.DIM),
            (f"{name:<{self._widest}} ", Tone.BAD if blamed else Tone.INFO),
            (f"{'' if place is None else letter_of(place):<2}", Tone.BAD if blamed else Tone.STRONG),
        ]

    def paint(self, y: int, width: int) -> Strip:
        """A title in a line, then what is known."""
        if y >= len(self._content):
            return strip_of([], width, self.ink)
        pieces = self._content[y]
        if y == 0:
            text, tone = pieces[0]
            shown = fit(text, min(cells(text), width - 2))
            return strip_of([(shown, tone), ("─" * (width - cells(shown)), Tone.DIM)], width, self.ink)
        return strip_of(pieces, width, self.ink)


class OddNode(NamedTuple):
    """A node that differs, the worst first."""

    rank: int
    """How bad it is, 0 the worst."""
    far: float
    """How far it lies from the others."""
    name: str
    why: str


def _fault(node: NodeState) -> str | None:
    """What is broken on a node."""
    return next((f"GPU {gpu.index}: {gpu.fault.text}" for gpu in node.gpus.values() if gpu.fault is not None), None)


class OddNodes(Lines):
    """Under a title, a node a line: those that are blamed, lost or broken, or far from what most show."""

    DEFAULT_CSS = """
    OddNodes { scrollbar-size: 0 0; overflow: hidden; }
    """

    def __init__(self, scene: Scene) -> None:
        super().__init__(id="odd")
        self.scene = scene
        self._broken = Rolling(self._reason)
        self._waits: tuple[WaitBox, ...] = ()
        self._found: list[OddNode] = []
        self._where: Mapping[str, str] = {}

    def feed(self, shares: Sequence[float | None], figure: str, where: Mapping[str, str]) -> None:
        """Take the nodes' shares, 0 to 1 of what is most of the figure on view, and their groups, and draw."""
        nodes, self._where = self.scene.nodes, where
        if self.scene.waits is not self._waits:
            self._waits = self.scene.waits
            self._broken.forget()
        found = [odd for odd in self._broken.turn(nodes) if odd is not None]
        named = {odd.name for odd in found}
        known = [share for share in shares if share is not None]
        if known:
            middle = median(known)
            apart = max(LEAST, APART * median([abs(share - middle) for share in known]))
            for node, share in zip(nodes, shares, strict=True):
                if share is not None and abs(share - middle) > apart and node.name not in named:
                    why = f"{figure} {share:.0%} of most, others {middle:.0%}"
                    found.append(OddNode(3, -abs(share - middle), node.name, why))
        self._found = sorted(found)
        self.redraw()

    def _reason(self, node: NodeState) -> OddNode | None:
        """What is wrong with a node by itself."""
        waiting = self.scene.waiting
        if any(waiting.blames(rank.process.rank) for rank in node.ranks.values()):
            return OddNode(0, 0.0, node.name, "holds the others up")
        if node.link in ("lost", "stale"):
            return OddNode(1, 0.0, node.name, f"{node.link} {node.why}".rstrip())
        if self.scene.stale(node):
            return OddNode(1, 0.0, node.name, f"not responding for {age(self.scene.silence(node))}")
        fault = _fault(node)
        return None if fault is None else OddNode(2, 0.0, node.name, fault)

    @property
    def lines(self) -> int:
        """Lines that they fill, with their title."""
        return 1 + len(self._found)

    def again(self) -> None:
        """Another moment is shown."""
        self._broken.forget()

    def paint(self, y: int, width: int) -> Strip:
        """One line."""
        room = max(1, self.size.height - 1)
        if y == 0:
            more = len(self._found) - room
            right = f" {more} more ─" if more > 0 else ""
            title = " nodes that differ " if self._found else " nodes that differ: none "
            line = "─" * max(0, width - cells(title) - cells(right))
            return strip_of([(title + line + right, Tone.DIM)], width, self.ink)
        if y - 1 >= len(self._found):
            return strip_of([], width, self.ink)
        odd = self._found[y - 1]
        tone = (Tone.BAD, Tone.WARN, Tone.BAD, Tone.TEXT)[odd.rank]
        bay = self._where.get(odd.name, "")
        where = [(f"{bay} ", Tone.DIM)] if bay and not odd.name.startswith(bay) else []
        return strip_of([(f" {self.scene.names.of(odd.name)} ", Tone.INFO), *where, (odd.why, tone)], width, self.ink)
