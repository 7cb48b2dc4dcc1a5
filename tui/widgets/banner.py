"""Line 1: the verdict; until there is one, how far the picture is complete and how old its oldest part.

A verdict that is loud is said whole: where its sentence is longer than the line, a second line has the rest.
"""

from __future__ import annotations

from tui.looks.format import age, ranks_word
from tui.looks.signs import outcome_sign
from tui.looks.text import CUT, cells, clip, harmless, short_paths, wrap
from tui.looks.theme import Background, Colour
from tui.view_model import ViewModel
from tui.widgets.lines import Bar, Piece
from tui.widgets.lines import width_of as _cells

BESIDE = 8
"""Cells at the right end that the sentence leaves to the label when it can."""
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
        self._lines = 1

    def resized(self) -> None:
        """Lay out for the new width."""
        self.draw()

    def draw(self) -> None:
        """Draw the line, or the two."""
        if not self.size.width:
            return
        verdict = self.model.session.verdict
        right = self._right(brief=verdict is not None)
        loud, lines = 0, list[list[Piece]]()
        if verdict is None:
            lines = [self._fit([(" hangtop ", Colour.STRONG), (" ", Colour.TEXT), *self._progress()], right)]
        else:
            word, colour, loud = outcome_sign(verdict.outcome)
            told = (f" {word} ", colour), (f" {short_paths(verdict.summary)}", Colour.STRONG if loud else Colour.TEXT)
            sure = f"  {verdict.findings[0].certainty}" if verdict.findings and loud else ""
            lines = self._laid(told, (sure, Colour.DIM), right) if loud else [self._fit([*told], right)]
        over = self.palette.alarm[loud] if loud else None
        if over != self.over:
            self.over = over
            self.repaint()
        if len(lines) != self._lines:
            self._lines = len(lines)
            self.styles.height = len(lines)
        self.show(*lines)

    def _laid(self, told: tuple[Piece, Piece], sure: Piece, right: list[list[Piece]]) -> list[list[Piece]]:
        """A loud sentence whole, in two lines where it needs them, and how sure it is where there is room."""
        width, last = self.size.width, self._last(brief=True)
        (word, _), (sentence, strong) = told
        beside = _width(last) if last else 0
        needed = cells(word) + cells(sentence) + 1 + beside + (SPARE if self._lines > 1 else 0)
        if needed <= width or self.app.size.height < LEAST:
            fits = cells(word) + cells(sentence) + cells(sure[0]) < width - BESIDE
            return [self._fit([*told, sure] if fits else [*told], right)]
        indent = cells(word) + 1
        whole = harmless(sentence.strip())
        first = wrap(whole, max(1, width - indent - 1 - beside))[0]
        head: list[Piece] = [told[0], (f" {first}", strong)]
        tail: list[Piece] = [(" " * indent + whole[len(first) :].lstrip(), strong)]
        if cells(tail[0][0]) + cells(sure[0]) < width - BESIDE:
            tail.append(sure)
        return [
            self._fit(head, [self._last(brief=False)] if last else []),
            self._fit(tail, right[:-1] if last else right, labelled=False),
        ]

    def _progress(self) -> list[Piece]:
        """Nodes up, ranks seen, who is slow."""
        count = self.model.count
        whole = count.world_size
        if not count.nodes:
            return [("no node yet", Colour.DIM)]
        pieces: list[Piece] = [
            (f"{count.nodes_up:,}/{count.nodes:,} nodes", Colour.OK if count.nodes_up == count.nodes else Colour.WARN),
            (" up   ", Colour.DIM),
            (f"{count.ranks_alive:,}{'' if whole is None else f'/{whole:,}'} ranks", Colour.TEXT),
            (" seen", Colour.DIM),
        ]
        asking = [node for node in self.model.nodes if node.link == "connecting" and node.since]
        if asking:
            slowest = min(asking, key=lambda node: node.since)
            waited = self.model.now - slowest.since
            if waited >= OLD:
                more = f" and {len(asking) - 1} more" if len(asking) > 1 else ""
                pieces.append((f"   waiting {age(waited)} for {self.model.names.of(slowest.name)}{more}", Colour.WARN))
        return pieces

    def _right(self, *, brief: bool) -> list[list[Piece]]:
        """What stands at the right edge, the most important last."""
        count, parts = self.model.count, list[list[Piece]]()
        if self.model.session.live and count.oldest is not None and count.oldest > OLD:
            parts.append([(f"oldest data {age(count.oldest)} ({count.oldest_node})", Colour.WARN)])
        if brief:
            whole = f"/{count.world_size:,}" if count.world_size is not None else ""
            up = Colour.DIM if count.nodes_up == count.nodes else Colour.WARN
            nodes = f"{count.nodes_up:,}/{count.nodes:,}" if self.model.session.live else f"{count.nodes:,}"
            ranks = f"{count.ranks_alive:,}{whole} {ranks_word(count.ranks_alive, count.world_size)}"
            # files may tell of a job without telling of its nodes or processes: that is no job of 0 ranks
            live, several = self.model.session.live, "" if count.nodes == 1 else "s"
            said: list[Piece] = [(f"{nodes} node{several}", up)] if live or count.nodes else []
            said += [(f" {ranks}", Colour.DIM)] if live or count.ranks or count.world_size else []
            parts += [said] if said else []
        if self.model.session.options.read_only and self.model.session.can_act:
            parts.append([("read-only", Colour.INFO)])
        last = self._last(brief=False)
        return [*parts, last] if last else parts

    def _last(self, *, brief: bool) -> list[Piece]:
        """The label, when brief its first word alone, and the moment that is shown, which must be seen whole."""
        label, (moment, _) = self.model.session.label, self.model.timeline.told()
        words = label.split()
        shown = clip(words[0], max(LABEL, self.size.width // 4)) if words and brief else label
        pieces: list[Piece] = [(shown, Colour.ACCENT)] if words else []
        if moment:
            pieces.append(((" " if words else "") + moment, Colour.STRONG))
        return pieces

    def _fit(self, left: list[Piece], parts: list[list[Piece]], *, labelled: bool = True) -> list[Piece]:
        """The sentence first, then what there is room for at the right; of the label at least the first word."""
        width = self.size.width
        wanted = _cells(left) + 1
        while len(parts) > 1 and wanted + sum(_width(part) for part in parts) > width:
            parts = parts[1:]
        if parts and wanted + sum(_width(part) for part in parts) > width:
            parts = [least] if labelled and (least := self._last(brief=True)) else []
        right = [piece for part in parts for piece in (("  ", Colour.TEXT), *part)]
        room = width - _cells(right) - 1
        kept: list[Piece] = []
        for text, colour in left:
            size = cells(text)
            if size > room:
                shown = clip(text, room) if room > 1 else CUT[:room]
                kept.append((shown, colour))
                room -= cells(shown)
                break
            kept.append((text, colour))
            room -= size
        return [*kept, (" " * room, Colour.TEXT), *right, (" ", Colour.TEXT)]


def _width(part: list[Piece]) -> int:
    return 2 + _cells(part)
