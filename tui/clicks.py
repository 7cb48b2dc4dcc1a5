"""What a click does: what its key would do, and of the line of time its moment is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.handlers.scrubbing import go
from tui.host import Host

if TYPE_CHECKING:
    from tui.panels.stacks import StacksPanel
    from tui.widgets.chart import TimeChart
    from tui.widgets.footer import Footer
    from tui.widgets.tabs import Tabs


class Clicks(Host, inherit_bindings=False):
    """The part of the application that takes what widgets say of the mouse."""

    async def action_do(self, name: str) -> None:
        """Run an action by its id."""
        raise NotImplementedError

    async def on_tabs_chosen(self, event: Tabs.Chosen) -> None:
        """A tab was clicked."""
        await self.action_do(f"panel.{event.panel}")

    async def on_footer_pressed(self, event: Footer.Pressed) -> None:
        """A key of the footer was clicked."""
        await self.action_do(event.action)

    async def on_lines_entered(self) -> None:
        """What is under the mouse was clicked twice."""
        await self.action_do("enter")

    async def on_time_chart_scrubbed(self, event: TimeChart.Scrubbed) -> None:
        """A moment of the line of time was clicked."""
        await go(self, event.at)

    def on_stacks_panel_opened(self, event: StacksPanel.Opened) -> None:
        """A group was gone into."""
        from tui.dialogs.stack import StackDialog

        self.push_screen(StackDialog(event.dumps, event.nodes))
