"""The first lines and the last: verdict, panels by number, the way here; keys."""

from __future__ import annotations

from tui.actions import Action, in_footer
from tui.host import Host
from tui.panels.registry import PANELS
from tui.widgets.banner import Banner
from tui.widgets.footer import Footer, FooterKey
from tui.widgets.tabs import Crumbs, Tab, Tabs

ALWAYS = ("palette", "help", "quit")
"""Actions that the footer shows however narrow it is."""


class Edges:
    """The widgets around the stage, and what they are told."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.banner = Banner(host.scene, lines=2)
        self.tabs = Tabs([Tab(entry.name, entry.title) for entry in PANELS])
        self.crumbs, self.footer = Crumbs(), Footer(ALWAYS)

    def draw(self) -> None:
        """Draw all of them, and the first line of a dialog."""
        self.banner.draw()
        if len(self._host.screen_stack) > 1:
            for banner in self._host.screen.query(Banner):
                banner.draw()
        self.draw_frame()

    def draw_frame(self) -> None:
        """Draw all but the verdict: another panel may be on top."""
        host, panel = self._host, self._host.panel
        verdict = host.session.verdict
        hidden = () if host.session.can_act else host.scene.without_anything
        self.tabs.tell(host.stage.top, len(verdict.findings) if verdict else 0, hidden)
        self.crumbs.tell(host.stage.trail, panel.query_text)
        able = host.session.can_act
        shown = [action for action in in_footer(panel.can) if able or not action.asks]
        self.footer.tell([FooterKey(action.id, self._keys_of(action), self._name_of(action)) for action in shown])

    def _name_of(self, action: Action) -> str:
        return action.title if action.named is None else action.named(self._host)

    def _keys_of(self, action: Action) -> str:
        return self._host.options.keymap.get(action.id, action.keys)
