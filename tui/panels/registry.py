"""The panels by number. A panel's module is imported when the panel is first opened, for a fast start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from tui.panels.base import Panel
from tui.view_model import ViewModel


@dataclass(frozen=True, slots=True)
class PanelEntry:
    """One panel: its key is its number."""

    name: str
    title: str
    where: str
    """``module:name`` of the function that makes the panel."""
    help: str

    def load(self) -> Callable[[ViewModel], Panel]:
        """Import the function that makes the panel."""
        module, _, name = self.where.partition(":")
        made: Callable[[ViewModel], Panel] = getattr(import_module(module), name)
        return made


PANELS = (
    PanelEntry("overview", "Overview", "tui.panels.overview:OverviewPanel", "Nodes × GPUs, and recent events"),
    PanelEntry("ranks", "Ranks", "tui.panels.ranks:RANKS", "Every rank's process: state, CPU, kernel wait, GPU, log"),
    PanelEntry("gpus", "GPUs", "tui.panels.gpus:GPUS", "Every GPU: load, memory, power, clocks, throttling"),
    PanelEntry("fabric", "Fabric", "tui.panels.fabric:FABRIC", "HCA ports and interfaces: state, traffic, errors"),
    PanelEntry("logs", "Logs", "tui.panels.logs:LogsPanel", "All logs merged by time, with kernel lines"),
    PanelEntry("nodes", "Nodes", "tui.panels.nodes:NODES", "Connections and sources: what cannot be read, and why"),
    PanelEntry("findings", "Findings", "tui.panels.findings:findings_panel", "What is wrong, evidence, next key"),
    PanelEntry(
        "stacks", "Stacks", "tui.panels.stacks:StacksPanel", "Stacks of all ranks, merged into groups, smallest first"
    ),
    PanelEntry(
        "collectives",
        "Groups",
        "tui.panels.collectives:CollectivesPanel",
        "What the ranks of every group have launched, groups with ranks behind first",
    ),
)
"""To add a panel, write its file and add its entry; its key is its position."""

BY_NAME = {entry.name: entry for entry in PANELS}
