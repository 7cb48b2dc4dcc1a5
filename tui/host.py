"""The application as actions and panels see it; how it is done is the application's business."""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING

from textual.app import App

from tui.looks.text import harmless
from tui.looks.theme import Ink
from tui.options import ScreenOptions
from tui.panels.base import Panel, Place
from tui.scene import Scene
from tui.stage import Stage
from tui.subject import Subject
from tui.widgets.lines import Content

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

KEPT = 50
"""Answers that are kept, the newest ones."""


class Host(App[None], inherit_bindings=False):
    """Session, scene and stage, and what is done with them from everywhere."""

    head: Subject
    """What is live, or played."""
    session: Subject
    """What is shown: that, or a moment of its past."""
    scene: Scene
    stage: Stage
    options: ScreenOptions
    ink: Ink
    results: deque[tuple[float, str, Content]]
    """Answers that were asked for, the newest last: when, title, text."""

    @property
    def panel(self) -> Panel:
        """The panel on top."""
        return self.stage.panel

    def say(self, text: str, severity: SeverityLevel = "information") -> None:
        """Show a short message; never read as markup."""
        self.notify(harmless(text), severity=severity, markup=False, timeout=4 if severity == "information" else 8)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy to the terminal's clipboard, and within tmux to its buffer: tmux by default takes no OSC 52."""
        super().copy_to_clipboard(text)
        if os.environ.get("TMUX"):
            from tui.clipboard import load_buffer

            self.run_worker(load_buffer(text), name="copy", exit_on_error=False)

    def keep(self, title: str, content: Content) -> None:
        """Keep an answer, to be read again."""
        self.results.append((self.session.now(), title, content))

    def answer(self, title: str, content: Content) -> None:
        """Show an answer, and keep it."""
        from tui.dialogs.base import TextDialog

        self.keep(title, content)
        self.push_screen(TextDialog(title, content))

    def tick(self) -> None:
        """Draw the latest state, once."""
        raise NotImplementedError

    def show_session(self, session: Subject) -> None:
        """Show another moment: the session itself, or one that was made of its past."""
        if session is not self.session:
            self.session = session
            self.scene.show(session)
            self.renew_panels()
        self.tick()

    def renew_panels(self) -> None:
        """Another moment than before is shown: nothing that was worked out from the last one is true."""
        for panel in self.stage.panels.values():
            panel.renew()

    def redraw_all(self) -> None:
        """Draw the whole screen anew."""
        raise NotImplementedError

    def start(self, action: str) -> None:
        """Run an action, by its id, from where one cannot wait for it."""
        raise NotImplementedError

    def open_palette(self) -> None:
        """Open the command palette."""
        raise NotImplementedError

    def open_help(self) -> None:
        """Show all keys."""
        raise NotImplementedError

    async def go(self, place: Place) -> None:
        """Go in, and draw."""
        await self.stage.go(place)
        self.tick()

    def start_going(self, place: Place) -> None:
        """Go to a place from where one cannot wait for it."""
        self.run_worker(self.go(place), name="go", exit_on_error=False)
