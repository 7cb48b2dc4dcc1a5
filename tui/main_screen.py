"""The screen under all dialogs: verdict, panels by number, the way here, the panel on top, the keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual import on
from textual.app import ComposeResult
from textual.screen import Screen

from tui.actions import ACTIONS
from tui.frame import Crumbs, KeyFooter, PanelTabs
from tui.panel_switcher import PanelSwitcher
from tui.panels.base import TextWanted
from tui.panels.filterline import FilterLine
from tui.view_model import ViewModel
from tui.widgets.banner import Banner
from tui.widgets.lines import Lines

if TYPE_CHECKING:
    from tui.app import HangtopApp


class MainScreen(Screen[None], inherit_bindings=False):
    """It has no keys of its own: the application has those of all actions."""

    def __init__(self, model: ViewModel, first: str) -> None:
        super().__init__(id="_default")
        self.model, self.switcher = model, PanelSwitcher(model, first)
        self.banner, self.tabs, self.crumbs, self.footer = Banner(model), PanelTabs(first), Crumbs(), KeyFooter()
        self._keys: object = None
        """What the footer's keys depend on."""

    @property
    def hangtop(self) -> HangtopApp:
        """The application."""
        return cast("HangtopApp", self.app)

    def compose(self) -> ComposeResult:
        """From above."""
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
        """Draw what stands around the panel: another one may be on top, or the cursor elsewhere in it."""
        panel, can_act = self.switcher.panel, self.model.session.can_act
        self.tabs.tell(self.switcher.top, self.model.causes)
        self.crumbs.tell(self.switcher.trail, panel.query_text)
        if (panel.can, can_act) != self._keys:
            self._keys = panel.can, can_act
            useless = (one for one in ACTIONS if not one.valid(panel.can) or (one.asks and not can_act))
            self.footer.unable = [one.binding for one in useless]
            self.hangtop.refresh_bindings()

    @on(PanelTabs.TabActivated)
    async def open_chosen(self, event: PanelTabs.TabActivated) -> None:
        """A title was clicked."""
        if event.tab.id != self.switcher.top:
            await self.hangtop.action_do(f"panel.{event.tab.id}")

    @on(FilterLine.Left)
    def draw_filtered(self) -> None:
        """The filter's line was left."""
        self.hangtop.tick()

    @on(Lines.Entered)
    async def enter_clicked(self) -> None:
        """What is under the mouse was clicked twice."""
        await self.hangtop.action_do("enter")

    @on(TextWanted)
    def open_text(self, event: TextWanted) -> None:
        """A panel has a text to be read."""
        from tui.dialogs.base import TextDialog

        self.hangtop.push_screen(TextDialog(event.title, event.content))

    def open_palette(self) -> None:
        """Open the command palette."""
        from textual.command import CommandPalette
        from textual.system_commands import SystemCommandsProvider

        self.hangtop.push_screen(CommandPalette([SystemCommandsProvider], placeholder="an action …"))

    def open_help(self) -> None:
        """Show all keys."""
        from tui.help_text import help_dialog

        self.hangtop.push_screen(help_dialog(self.switcher.top, self.switcher.panel))
