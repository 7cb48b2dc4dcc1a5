"""The nodes of a larger job that differ from the others: blamed, lost, broken, or far from what most show."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from hangtop.session.state.job_state import NodeState
from tui.looks.format import age
from tui.looks.theme import Colour
from tui.view_model import ViewModel
from tui.widgets.textview import TextView

APART = 5.0
"""Times the middle distance from the middle at which a node differs, …"""
LEAST = 0.12
"""… and of the scale at the least, as a share of what is most."""


class OddNodes(TextView, can_focus=False):
    """Under a title, a node a line, the worst first."""

    def __init__(self, model: ViewModel) -> None:
        super().__init__(id="odd")
        self.model = model

    def draw(self, figure: str, share: Callable[[NodeState], float | None]) -> None:
        """Look for them and draw; ``share`` tells a node's mean of the figure, 0 to 1 of what is most."""
        nodes = self.model.nodes
        found = {node.name: fault for node in nodes if (fault := self._fault(node)) is not None}
        shares = {node.name: mean for node in nodes if (mean := share(node)) is not None}
        if shares:
            middle = median(shares.values())
            apart = max(LEAST, APART * median(abs(mean - middle) for mean in shares.values()))
            for name, mean in sorted(shares.items(), key=lambda item: -abs(item[1] - middle)):
                if abs(mean - middle) > apart:
                    told = f"{figure} {mean:.0%} of most, others {middle:.0%}"
                    found.setdefault(name, (3, told, Colour.TEXT))
        names, worst = self.model.names, sorted(found.items(), key=lambda item: item[1][0])
        content = [[(f" {names.of(name)} ", Colour.INFO), (why, colour)] for name, (_, why, colour) in worst]
        self.show(content, "nodes that differ" if found else "nodes that differ: none")

    def _fault(self, node: NodeState) -> tuple[int, str, Colour] | None:
        """What is wrong with a node by itself: how bad it is, 0 the worst, and why."""
        waiting = self.model.waiting
        if any(waiting.blames(rank.process.rank) for rank in node.ranks.values()):
            return 0, "holds the others up", Colour.BAD
        if node.link in ("lost", "stale"):
            return 1, f"{node.link} {node.why}".rstrip(), Colour.WARN
        if self.model.stale(node):
            return 1, f"not responding for {age(self.model.silence(node))}", Colour.WARN
        fault = next((f"GPU {gpu.index}: {gpu.fault.text}" for gpu in node.gpus.values() if gpu.fault is not None), "")
        return (2, fault, Colour.BAD) if fault else None
