"""Which panel is on top, and the way back from where drilling down has led."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from textual.app import ComposeResult
from textual.containers import Container

from tui.panels.base import Panel, Place
from tui.panels.registry import BY_NAME, PANELS
from tui.scene import Scene
from tui.widgets.clear import Clear


@dataclass(frozen=True, slots=True)
class _Step:
    """Where one was, as it was."""

    panel: str
    scope: str
    query: str
    here: Hashable


class Stage(Clear, Container):
    """Holds the panels that were opened, one of them on top."""

    DEFAULT_CSS = """
    Stage { height: 1fr; }
    """

    def __init__(self, scene: Scene) -> None:
        super().__init__(id="stage")
        self.scene = scene
        self.top = PANELS[0].name
        self.panels: dict[str, Panel] = {self.top: PANELS[0].load()(scene)}
        self._way: list[_Step] = []

    def compose(self) -> ComposeResult:
        """The first panel; others come when they are asked for."""
        yield self.panel

    @property
    def panel(self) -> Panel:
        """The panel on top."""
        return self.panels[self.top]

    async def show(self, name: str) -> Panel:
        """Bring a panel to the front, making it when it is first asked for."""
        if name == self.top:
            return self.panel
        self.panel.hidden()
        self.panel.display = False
        if name not in self.panels:
            self.panels[name] = BY_NAME[name].load()(self.scene)
            await self.mount(self.panels[name])
        self.top = name
        self.panel.display = True
        self.panel.shown()
        return self.panel

    async def open(self, name: str) -> None:
        """Open a panel by its key: whole, and with no way back."""
        self._way.clear()
        panel = await self.show(name)
        if panel.scope:
            _narrow(panel, "", panel.query_text)

    async def go(self, place: Place) -> None:
        """Go in, remembering the way back."""
        before = self.panel
        self._way.append(_Step(self.top, before.scope, before.query_text, before.here()))
        panel = await self.show(place.panel)
        _narrow(panel, place.scope, "")
        if place.select is not None:
            panel.select(place.select)

    async def back(self) -> bool:
        """Take the filter away, else go back one step; False when there is nowhere to go."""
        if self.panel.query_text:
            _narrow(self.panel, self.panel.scope, "")
            return True
        if not self._way:
            return False
        step = self._way.pop()
        panel = await self.show(step.panel)
        _narrow(panel, step.scope, step.query)
        if step.here is not None:
            panel.select(step.here)
        return True

    def beside(self, step: int) -> str:
        """Name of the panel to the right or left."""
        names = [entry.name for entry in PANELS]
        return names[(names.index(self.top) + step) % len(names)]


def _narrow(panel: Panel, scope: str, query: str) -> None:
    if (panel.scope, panel.query_text) != (scope, query):
        panel.scope = scope
        panel.set_filter(query)
