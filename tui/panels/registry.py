"""The panels by number. A panel's module is imported when it is first opened, so that the first frame comes soon."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from tui.panels.base import Panel


@dataclass(frozen=True, slots=True)
class PanelEntry:
    """One panel: its key is its number."""

    name: str
    title: str
    where: str
    """``module:class``."""
    help: str

    def load(self) -> type[Panel]:
        """Import the panel's class."""
        module, _, name = self.where.partition(":")
        kind: type[Panel] = getattr(import_module(module), name)
        return kind


PANELS = (
    PanelEntry(
        "overview", "Overview", "tui.panels.overview:OverviewPanel", "Nodes × GPUs at a glance; what changed lately"
    ),
    PanelEntry(
        "ranks", "Ranks", "tui.panels.ranks:RanksPanel", "Every rank's process: state, CPU, kernel wait, GPU, log"
    ),
    PanelEntry(
        "gpus", "GPUs", "tui.panels.gpus:GpusPanel", "Every GPU: load, memory, power, clocks, what holds it back"
    ),
    PanelEntry("fabric", "Fabric", "tui.panels.fabric:FabricPanel", "HCA ports and interfaces: state, traffic, errors"),
    PanelEntry("logs", "Logs", "tui.panels.logs:LogsPanel", "All logs merged by time, with kernel lines"),
    PanelEntry(
        "nodes", "Nodes", "tui.panels.nodes:NodesPanel", "Connections and sources: what is known, what is not, why"
    ),
    PanelEntry("findings", "Findings", "tui.panels.findings:FindingsPanel", "What is wrong, the proof, the next key"),
    PanelEntry(
        "stacks", "Stacks", "tui.panels.stacks:StacksPanel", "All ranks' stacks merged: who is where, fewest first"
    ),
    PanelEntry(
        "collectives",
        "Groups",
        "tui.panels.collectives:CollectivesPanel",
        "The last collectives of every group, rank beside rank, the odd one marked",
    ),
)
"""To add a panel, write its file and add its line: its key is its place."""

BY_NAME = {entry.name: entry for entry in PANELS}
