"""Line 1: the verdict, and at the right end the numbers of nodes and ranks and the age of the oldest data.

A second line shows the rest of an alarm that is longer than the line.
"""

from __future__ import annotations

from tui.looks.format import age, ranks_word
from tui.looks.signs import sign_of
from tui.looks.text import cells, clip, fit, harmless, short_paths, wrap
from tui.looks.theme import Background, Colour
from tui.view_model import ViewModel
from tui.widgets.lines import Bar, Content, Piece, width_of

LEAST = 20
"""Height of the screen from which the banner may have a second line."""
OLD = 3.0
"""Seconds after which the age of the oldest data, or the wait for a connection, is shown."""


class Banner(Bar):
    """The first one or two lines of the screen."""

    def __init__(self, model: ViewModel) -> None:
        super().__init__(id="banner", ground=Background.BAR)
        self.model = model

    def resized(self) -> None:
        """Draw for the new width."""
        self.draw()

    def draw(self) -> None:
        """Draw one or two lines."""
        width, verdict = self.size.width, self.model.session.verdict
        if not width:
            return
        loud, head = 0, [(" hangtop  ", Colour.STRONG)]
        sentence, sure = self._waited_for() if verdict is None else "", ""
        if verdict is not None:
            sign = sign_of(verdict.outcome)
            loud, head = sign.loud, [(f" {sign.glyph} {sign.label.upper()}  ", sign.colour)]
            sentence = harmless(short_paths(verdict.summary).strip())
            sure = f"  {verdict.findings[0].certainty}" if verdict.findings and loud else ""
        indent, rows = width_of(head), [sentence]
        right = self._right(max(0, width - indent - cells(sentence) - 1))
        room = max(1, width - indent - width_of(right) - 1)
        if loud and cells(sentence) > room and self.app.size.height >= LEAST:
            first = wrap(sentence, room)[0]
            rows = [first, clip(sentence[len(first) :].lstrip() + sure, max(0, width - indent - 1))]
        elif loud and cells(sentence + sure) <= room:
            rows = [sentence + sure]
        strong = Colour.STRONG if loud else Colour.TEXT
        lines: Content = [[*head, (fit(clip(rows[0], room), room), strong), *right]]
        lines += [[(" " * indent, strong), (row, strong)] for row in rows[1:]]
        over = self.palette.alarm[loud - 1] if loud else None
        if over != self.over:
            self.over = over
            self.repaint()
        if len(lines) != len(self.content):
            self.styles.height = len(lines)
        self.show(*lines)

    def _waited_for(self) -> str:
        """Text before the first verdict: the node that takes longest to connect."""
        asking = [node for node in self.model.nodes if node.link == "connecting" and node.since]
        slowest = min(asking, key=lambda node: node.since, default=None)
        if slowest is None or (waited := self.model.now - slowest.since) < OLD:
            return "no verdict yet" if self.model.nodes else "no node yet"
        return f"waiting {age(waited)} for {slowest.name}{f' and {len(asking) - 1} more' if len(asking) > 1 else ''}"

    def _right(self, room: int) -> list[Piece]:
        """Pieces at the right edge: label and moment always, before them what fits into ``room`` cells."""
        count, session = self.model.count, self.model.session
        moment = self.model.timeline.moment_texts()[0]
        label = session.options.label
        label = label if cells(label) <= room else label.partition(" ")[0]
        kept: list[Piece] = [
            (f"  {text}", colour) for text, colour in ((label, Colour.ACCENT), (moment, Colour.STRONG)) if text
        ]
        details: list[Piece] = []
        if session.options.read_only and session.can_act:
            details.append(("read-only", Colour.INFO))
        # files may describe a job without its nodes or processes: do not show 0 ranks
        if session.live or count.nodes or count.ranks:
            whole = f"/{count.world_size:,}" if count.world_size is not None else ""
            nodes = f"{count.nodes_up:,}/{count.nodes:,}" if session.live else f"{count.nodes:,}"
            text = f"{nodes} {'node' if count.nodes == 1 else 'nodes'}"
            if session.live or count.ranks:
                text += f" {count.ranks_alive:,}{whole} {ranks_word(count.ranks_alive, count.world_size)}"
            details.append((text, Colour.DIM if count.nodes_up == count.nodes else Colour.WARN))
        if session.live and session.state.untold:
            details.append((f"every {session.state.interval:g} s", Colour.DIM))
        if session.live and count.oldest is not None and count.oldest > OLD + session.state.untold:
            details.append((f"oldest data {age(count.oldest)} ({count.oldest_node})", Colour.WARN))
        for text, colour in details:
            if width_of(kept) + cells(text) + 2 <= room:
                kept.insert(0, (f"  {text}", colour))
        return [*kept, (" ", Colour.TEXT)]
