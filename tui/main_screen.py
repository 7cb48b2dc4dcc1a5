"""The screen under all dialogs: banner, panel tabs, breadcrumbs, the panel on top, footer."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual import on
from textual.app import ComposeResult
from textual.screen import Screen

from tui.actions import ACTIONS
from tui.frame import Crumbs, KeyFooter, PanelTabs
from tui.panel_switcher import PanelSwitcher
from tui.panels.filterline import FilterLine
from tui.view_model import ViewModel
from tui.widgets.banner import Banner

if TYPE_CHECKING:
    from tui.app import HangtopApp


class MainScreen(Screen[None], inherit_bindings=False):
    """The main screen. The application binds all keys."""

    def __init__(self, model: ViewModel, first: str) -> None:
        super().__init__(id="_default")
        self.model, self.switcher = model, PanelSwitcher(model, first)
        self.banner, self.tabs, self.crumbs, self.footer = Banner(model), PanelTabs(first), Crumbs(), KeyFooter()
        self._keys: object = None
        """The state for which the footer was made."""

    @property
    def hangtop(self) -> HangtopApp:
        """The application."""
        return cast("HangtopApp", self.app)

    def compose(self) -> ComposeResult:
        """The widgets, from top to bottom."""
        yield from (self.banner, self.tabs, self.crumbs, self.switcher, self.footer)

    def on_mount(self) -> None:
        """Draw the first frame."""
        self.switcher.panel.main.focus()
        self.hangtop.tick()

    def draw(self) -> None:
        """Draw the latest state."""
        self.switcher.panel.draw()
        self.banner.draw()
        self.draw_frame()

    def draw_frame(self) -> None:
        """Draw tabs, breadcrumbs and footer for the panel on top and its cursor."""
        panel, can_act = self.switcher.panel, self.model.session.can_act
        self.tabs.tell(self.switcher.top, self.model.causes)
        self.crumbs.tell(self.switcher.trail, panel.query_text)
        if (panel.can, can_act) != self._keys:
            self._keys = panel.can, can_act
            useless = (action for action in ACTIONS if not action.valid(panel.can) or (action.asks and not can_act))
            self.footer.unable = [action.binding for action in useless]
            self.hangtop.refresh_bindings()

    @on(PanelTabs.TabActivated)
    async def open_chosen(self, event: PanelTabs.TabActivated) -> None:
        """Open the panel of a clicked tab."""
        if event.tab.id != self.switcher.top:
            await self.hangtop.action_do(f"panel.{event.tab.id}")

    @on(FilterLine.Left)
    def draw_filtered(self) -> None:
        """Draw after the filter line closed."""
        self.hangtop.tick()

    def open_palette(self) -> None:
        """Open the command palette."""
        from textual.command import CommandPalette
        from textual.system_commands import SystemCommandsProvider

        self.hangtop.push_screen(CommandPalette([SystemCommandsProvider], placeholder="an action …"))

    def open_help(self) -> None:
        """Show all keys."""
        from tui.help_text import help_dialog

        self.hangtop.push_screen(help_dialog(self.switcher.top, self.switcher.panel))
