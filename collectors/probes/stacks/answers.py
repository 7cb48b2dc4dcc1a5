"""What a node's dumper prints, line by line: dumps, and at times the wish for a py-spy."""

from __future__ import annotations

from collections.abc import Callable

from collectors.fleet.decode import Decoder
from collectors.node.stacks.asking import WantsPySpy
from collectors.probes.decoding import Unreadable, answer
from collectors.samples.stacks import StackDump

LINE_LIMIT = 16 << 20
"""Bytes of one dump: a process of a thousand threads, with native frames, stays under it."""

_WISHES = b'["WantsPySpy",'
_END = b'["Answered",'
_wish = answer(WantsPySpy)


class Answers:
    """Decodes what one dumper prints. Nothing that it prints raises."""

    def __init__(
        self,
        on_dump: Callable[[StackDump], None],
        on_wish: Callable[[WantsPySpy], None],
        on_end: Callable[[], None],
    ) -> None:
        self._on_dump = on_dump
        self._on_end = on_end
        self._on_wish = on_wish
        self._decoder = Decoder(line_limit=LINE_LIMIT)

    def line(self, line: bytes) -> bool:
        """Take a line; none is the last, as more can be asked."""
        if line.startswith(_WISHES):
            self._wish(line)
        elif line.startswith(_END):
            self._on_end()
        else:
            for sample in self._decoder.feed(line + b"\n"):
                if isinstance(sample, StackDump):
                    self._on_dump(sample)
        return False

    def bad(self) -> str:
        """Why a line could not be used; empty when all could."""
        return "; ".join(dict.fromkeys(bad.why for bad in self._decoder.bad_lines()))

    def _wish(self, line: bytes) -> None:
        try:
            wish = _wish(line)
        except Unreadable:
            wish = WantsPySpy("", "")  # cannot be fulfilled, but must be answered: the node waits
        self._on_wish(wish)
