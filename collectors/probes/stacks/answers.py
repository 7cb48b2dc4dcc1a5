"""What a node's dumper prints, line by line: dumps, and at times the wish for a py-spy."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from collectors.fleet.clean import clean
from collectors.fleet.decode import Decoder
from collectors.node.asking import WantsPySpy
from collectors.samples.stacks import StackDump

LINE_LIMIT = 16 << 20
"""Bytes of one dump: a process of a thousand threads, with native frames, stays under it."""

_WISH = b'["WantsPySpy",'
_END = b'["Answered",'
_decode_wish = msgspec.json.Decoder(tuple[str, WantsPySpy]).decode


class Answers:
    """Splits and decodes what one dumper prints. Nothing that it prints raises."""

    def __init__(
        self,
        on_dump: Callable[[StackDump], None],
        on_wish: Callable[[WantsPySpy], None],
        on_end: Callable[[], None],
    ) -> None:
        self._on_dump = on_dump
        self._on_end = on_end
        self._on_wish = on_wish
        self._decoder = Decoder(line_limit=LINE_LIMIT, tick_limit=64 * LINE_LIMIT)
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take a chunk of any size."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(_WISH):
                self._wish(line)
            elif line.startswith(_END):
                self._on_end()
            else:
                for sample in self._decoder.feed(line + b"\n"):
                    if isinstance(sample, StackDump):
                        self._on_dump(sample)
        if len(self._rest) > LINE_LIMIT:
            self._rest = b""

    def bad(self) -> str:
        """Why a line could not be used; empty when all could."""
        return "; ".join(dict.fromkeys(bad.why for bad in self._decoder.renew()))

    def _wish(self, line: bytes) -> None:
        try:
            wish = _decode_wish(line)[1]
        except (msgspec.MsgspecError, UnicodeDecodeError):
            wish = WantsPySpy("", "")  # cannot be fulfilled, but must be answered: the node waits
        self._on_wish(WantsPySpy(clean(wish.machine), clean(wish.why)))
