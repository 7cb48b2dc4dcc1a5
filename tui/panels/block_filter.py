"""The filter of panels that are blocks of ranks: a block stays when one of its ranks passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tui.ordering.filter import Value, parse
from tui.scene import Scene
from tui.widgets.blocks import Block


class Seen(NamedTuple):
    """A rank of a block."""

    rank: int
    node: str
    text: str
    """All of the block."""


FIELDS: dict[str, Callable[[Seen], Value]] = {"rank": lambda seen: seen.rank, "node": lambda seen: seen.node}


class BlockFilter:
    """Lets everything through until something is set."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._test: Callable[[Seen], bool] | None = None

    def set(self, text: str) -> None:
        """Take a filter. Raises :class:`~tui.ordering.filter.FilterError` and changes nothing then."""
        wanted = parse(text)
        self._test = wanted.bind(FIELDS, lambda seen: seen.text) if wanted.terms else None

    def kept(self, blocks: Sequence[Block]) -> list[Block]:
        """The blocks that pass."""
        if self._test is None:
            return list(blocks)
        nodes = {row.number: row.node.name for row in self._scene.ranks}
        return [block for block in blocks if self._passes(block, nodes, self._test)]

    def _passes(self, block: Block, nodes: dict[int, str], test: Callable[[Seen], bool]) -> bool:
        text = "\n".join("".join(text for text, _ in line) for line in block.lines)
        return any(test(Seen(rank, nodes.get(rank, ""), text)) for rank in block.ranks)
