"""The panel on top, and the history of panels for going back."""

from __future__ import annotations

from textual.widgets import ContentSwitcher

from tui.panels.base import Panel, Place
from tui.panels.registry import BY_NAME
from tui.view_model import ViewModel


class PanelSwitcher(ContentSwitcher):
    """Holds the opened panels, one of them on top."""

    def __init__(self, model: ViewModel, first: str) -> None:
        panel = BY_NAME[first].load()(model)
        super().__init__(panel, id="switcher", initial=panel.id)
        self.model = model
        self.top = first
        self.panels: dict[str, Panel] = {first: panel}
        self._way: list[Place] = []

    @property
    def panel(self) -> Panel:
        """The panel on top."""
        return self.panels[self.top]

    async def show(self, name: str) -> Panel:
        """Bring a panel to the front; the first time, make it."""
        if name != self.top:
            if name not in self.panels:
                self.panels[name] = BY_NAME[name].load()(self.model)
                await self.add_content(self.panels[name])
            before, self.top = self.panel, name
            self.current = self.panel.id
            before.hidden()
            self.panel.shown()
            self.panel.main.focus()
        return self.panel

    async def open(self, name: str) -> None:
        """Open a panel by its key: without a scope, and with an empty history."""
        self._way.clear()
        panel = await self.show(name)
        if panel.scope:
            _narrow(panel, "", panel.query_text)

    async def go(self, place: Place) -> None:
        """Go to a place, and remember the present one for :meth:`back`."""
        before = self.panel
        self._way.append(Place(self.top, before.scope, before.here(), before.query_text))
        await self._stand(place)

    async def back(self) -> bool:
        """Clear the filter, else go back one step; False if there is no step."""
        if self.panel.query_text:
            _narrow(self.panel, self.panel.scope, "")
            return True
        if not self._way:
            return False
        await self._stand(self._way.pop())
        return True

    async def _stand(self, place: Place) -> None:
        panel = await self.show(place.panel)
        _narrow(panel, place.scope, place.query)
        if place.select is not None:
            panel.select(place.select)

    @property
    def trail(self) -> list[str]:
        """Titles of the visited panels with their scopes, the present one last; empty without a history."""
        if not self._way:
            return []
        steps = [*((step.panel, step.scope) for step in self._way), (self.top, self.panel.scope)]
        return [f"{BY_NAME[name].title} {scope}".rstrip() for name, scope in steps]


def _narrow(panel: Panel, scope: str, query: str) -> None:
    if (panel.scope, panel.query_text) != (scope, query):
        panel.scope = scope
        panel.set_filter(query)
