"""Line 1: the verdict; until there is one, how far the picture is complete and how old its oldest part.

A verdict that is loud is said whole: where its sentence is longer than the line, a second line has the rest.
"""

from __future__ import annotations

from tui.looks.format import age, plural, ranks_word
from tui.looks.signs import outcome_sign
from tui.looks.text import cells, clip, harmless, short_paths, wrap
from tui.looks.theme import Background, Colour
from tui.view_model import ViewModel
from tui.widgets.lines import Bar, Piece, width_of

LABEL = 8
"""Cells that the first word of a label may always have; of a wide line it has a quarter, however long it is."""
LEAST = 20
"""Lines of a screen from which on a sentence may take a second one."""
SPARE = 6
"""Cells by which a sentence must have become too short for two lines before it goes back to one: it has figures in it
that change."""
OLD = 3.0
"""Seconds after which the age of the oldest data is worth a word."""


class Banner(Bar):
    """The first line or two, always."""

    def __init__(self, model: ViewModel) -> None:
        super().__init__(id="banner", ground=Background.BAR)
        self.model = model

    def resized(self) -> None:
        """Lay out for the new width."""
        self.draw()

    def draw(self) -> None:
        """Draw the line, or the two."""
        if not self.size.width:
            return
        verdict = self.model.session.verdict
        label = self._label(brief=True)
        if verdict is None:
            loud, lines = 0, [([(" hangtop  ", Colour.STRONG), *self._progress()], self._right(None))]
        else:
            word, colour, loud = outcome_sign(verdict.outcome)
            sentence = harmless(short_paths(verdict.summary).strip())
            sure = f"  {verdict.findings[0].certainty}" if verdict.findings and loud else ""
            head: Piece = (f" {word}  ", colour)
            rows = self._rows(sentence, cells(head[0]), _width(label)) if loud else [sentence]
            strong = Colour.STRONG if loud else Colour.TEXT
            lines = [([head, (rows[0], strong)], self._right(verdict.outcome) if len(rows) == 1 else [label])]
            if len(rows) > 1:
                lines.append(([(" " * cells(head[0]) + rows[1], strong)], self._right(verdict.outcome)[:-1]))
            if cells(head[0] + rows[-1] + sure) + _width(label) < self.size.width:
                lines[-1][0].append((sure, Colour.DIM))
        over = self.palette.alarm[loud] if loud else None
        if over != self.over:
            self.over = over
            self.repaint()
        if len(lines) != len(self.content):
            self.styles.height = len(lines)
        self.show(*(self._fit(left, right) for left, right in lines))

    def _rows(self, sentence: str, indent: int, label: int) -> list[str]:
        """A sentence in one line, or in two where it needs them and there is room."""
        room = self.size.width - indent - label - 1
        spare = SPARE if len(self.content) > 1 else 0
        if cells(sentence) + spare <= room or self.app.size.height < LEAST:
            return [sentence]
        first = wrap(sentence, max(1, room))[0]
        return [first, sentence[len(first) :].lstrip()]

    def _progress(self) -> list[Piece]:
        """Nodes up, ranks seen, who is slow."""
        count = self.model.count
        if not count.nodes:
            return [("no node yet", Colour.DIM)]
        whole = "" if count.world_size is None else f"/{count.world_size:,}"
        up = Colour.OK if count.nodes_up == count.nodes else Colour.WARN
        pieces: list[Piece] = [
            (f"{count.nodes_up:,}/{count.nodes:,} nodes", up),
            (" up   ", Colour.DIM),
            (f"{count.ranks_alive:,}{whole} ranks", Colour.TEXT),
            (" seen", Colour.DIM),
        ]
        asking = [node for node in self.model.nodes if node.link == "connecting" and node.since]
        slowest = min(asking, key=lambda node: node.since, default=None)
        if slowest is not None and (waited := self.model.now - slowest.since) >= OLD:
            more = f" and {len(asking) - 1} more" if len(asking) > 1 else ""
            pieces.append((f"   waiting {age(waited)} for {self.model.names.of(slowest.name)}{more}", Colour.WARN))
        return pieces

    def _right(self, outcome: str | None) -> list[list[Piece]]:
        """What stands at the right edge, the most important last."""
        count, session, parts = self.model.count, self.model.session, list[list[Piece]]()
        if session.live and count.oldest is not None and count.oldest > OLD:
            parts.append([(f"oldest data {age(count.oldest)} ({count.oldest_node})", Colour.WARN)])
        # files may tell of a job without telling of its nodes or processes: that is no job of 0 ranks
        if outcome is not None and (session.live or count.nodes or count.ranks):
            whole = f"/{count.world_size:,}" if count.world_size is not None else ""
            several = "" if count.nodes == 1 else "s"
            nodes = f"{count.nodes_up:,}/{count.nodes:,} node{several}" if session.live else plural(count.nodes, "node")
            ranks = f" {count.ranks_alive:,}{whole} {ranks_word(count.ranks_alive, count.world_size)}"
            up = Colour.DIM if count.nodes_up == count.nodes else Colour.WARN
            shown = nodes if session.live or count.nodes else ""
            parts.append([(shown, up), (ranks if session.live or count.ranks else "", Colour.DIM)])
        if session.options.read_only and session.can_act:
            parts.append([("read-only", Colour.INFO)])
        return [*parts, self._label(brief=False)]

    def _label(self, *, brief: bool) -> list[Piece]:
        """The label, when brief its first word alone, and the moment that is shown, which must be seen whole."""
        label, (moment, _) = self.model.session.label, self.model.timeline.told()
        words = label.split()
        shown = clip(words[0], max(LABEL, self.size.width // 4)) if words and brief else label
        return [(text, colour) for text, colour in ((shown, Colour.ACCENT), (moment, Colour.STRONG)) if text]

    def _fit(self, left: list[Piece], parts: list[list[Piece]]) -> list[Piece]:
        """The sentence first, then what there is room for at the right; of the label at least the first word."""
        width, shown = self.size.width, [part for part in parts if part]
        wanted = width_of(left) + 1
        while len(shown) > 1 and wanted + sum(map(_width, shown)) > width:
            shown = shown[1:]
        if shown and wanted + sum(map(_width, shown)) > width:
            labels = self._label(brief=True), self._label(brief=False)
            shown = [labels[0]] if shown[-1] in labels else []
        right: list[Piece] = []
        for part in shown:
            for place, (text, colour) in enumerate(part):
                right.append((f"{' ' if place and not text.startswith(' ') else '' if place else '  '}{text}", colour))
        room = width - width_of(right) - 1
        kept: list[Piece] = []
        for text, colour in left:
            told = clip(text, room - width_of(kept))
            kept += [(told, colour)] if told else []
            if told != text:
                break
        return [*kept, (" " * (room - width_of(kept)), Colour.TEXT), *right, (" ", Colour.TEXT)]


def _width(part: list[Piece]) -> int:
    return 2 + sum(cells(text) + 1 for text, _ in part)
