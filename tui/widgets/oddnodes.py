"""The nodes of a larger job that differ from the others: blamed, lost, broken, or far from what most show."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import NamedTuple

from textual.strip import Strip

from hangtop.session.state.job_state import NodeState
from tui.looks.format import age
from tui.looks.theme import Tone
from tui.scene import Scene
from tui.widgets.lines import Lines, ruled, strip_of

APART = 5.0
"""Times the middle distance from the middle at which a node differs, …"""
LEAST = 0.12
"""… and of the scale at the least, as a share of what is most."""


class OddNode(NamedTuple):
    """A node that differs, the worst first."""

    rank: int
    """How bad it is, 0 the worst."""
    far: float
    """How far it lies from the others."""
    name: str
    why: str


class OddNodes(Lines, can_focus=False):
    """Under a title, a node a line."""

    def __init__(self, scene: Scene, share: Callable[[NodeState], float | None]) -> None:
        """``share`` tells a node's mean of the figure on view, 0 to 1 of what is most."""
        super().__init__(id="odd")
        self.scene, self._share = scene, share
        self._found: list[OddNode] = []

    def feed(self, figure: str) -> None:
        """Look for them and draw."""
        nodes = self.scene.nodes
        found = [odd for node in nodes if (odd := self._fault(node)) is not None]
        named = {odd.name for odd in found}
        shares = {node.name: share for node in nodes if (share := self._share(node)) is not None}
        if shares:
            middle = median(shares.values())
            apart = max(LEAST, APART * median([abs(share - middle) for share in shares.values()]))
            for name, share in shares.items():
                if abs(share - middle) > apart and name not in named:
                    why = f"{figure} {share:.0%} of most, others {middle:.0%}"
                    found.append(OddNode(3, -abs(share - middle), name, why))
        self._found = sorted(found)
        self.resize_to(1 + len(found))
        self.redraw()

    def _fault(self, node: NodeState) -> OddNode | None:
        """What is wrong with a node by itself."""
        waiting = self.scene.waiting
        if any(waiting.blames(rank.process.rank) for rank in node.ranks.values()):
            return OddNode(0, 0.0, node.name, "holds the others up")
        if node.link in ("lost", "stale"):
            return OddNode(1, 0.0, node.name, f"{node.link} {node.why}".rstrip())
        if self.scene.stale(node):
            return OddNode(1, 0.0, node.name, f"not responding for {age(self.scene.silence(node))}")
        fault = next((f"GPU {gpu.index}: {gpu.fault.text}" for gpu in node.gpus.values() if gpu.fault is not None), "")
        return OddNode(2, 0.0, node.name, fault) if fault else None

    def paint(self, y: int, width: int) -> Strip:
        """One line."""
        if y == 0:
            more = len(self._found) + 1 - self.size.height
            title = " nodes that differ " if self._found else " nodes that differ: none "
            return strip_of(ruled(title, f" {more} more ─" if more > 0 else "", width), width, self.ink)
        place = self.top + y - 1
        if place >= len(self._found):
            return strip_of([], width, self.ink)
        odd = self._found[place]
        tone = (Tone.BAD, Tone.WARN, Tone.BAD, Tone.TEXT)[odd.rank]
        return strip_of([(f" {self.scene.names.of(odd.name)} ", Tone.INFO), (odd.why, tone)], width, self.ink)
