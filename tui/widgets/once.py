"""Lines as they are handed to Textual: painted once, and gone with the next paint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual.strip import Strip


class OnceStrip(Strip):
    """A strip that does not remember how it was cut.

    Where it is not cut at all, Textual's strip remembers itself: such a cycle stays until Python looks for cycles, and
    a page of them is made at each paint.
    """

    def divide(self, cuts: Iterable[int]) -> Sequence[Strip]:
        """Cut it at these places; itself where the only one is its end."""
        within = [cut for cut in cuts if cut <= self.cell_length]
        return [self] if within == [self.cell_length] else super().divide(within)


def once(strip: Strip) -> Strip:
    """The same line, to be handed over."""
    return OnceStrip(strip, strip.cell_length)
