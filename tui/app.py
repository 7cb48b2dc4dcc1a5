"""The application: one session, drawn once a tick, with keys from the table of actions."""

from __future__ import annotations

import asyncio
import functools
import gc
import importlib
import inspect
import os
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.filter import ANSIToTruecolor, LineFilter, NoColor
from textual.screen import Screen
from textual.theme import Theme
from textual.worker import Worker, WorkerState

from collectors.fleet.transport import TransportError
from hangtop.session.session import Session
from tui.actions import ACTIONS, BY_ID, Action, bindings, shown_keys
from tui.handlers.ask import ActionRefused, refusals
from tui.looks.format import reason
from tui.looks.text import harmless
from tui.looks.theme import OWN, SIXTEEN, Palette, palette_of
from tui.main_screen import MainScreen
from tui.panel_switcher import PanelSwitcher
from tui.panels.base import Panel, Place
from tui.panels.registry import PANELS
from tui.terminal import Alarm, TerminalDriver
from tui.view_model import ViewModel
from tui.widgets.lines import Content, Lines

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

KEPT = 50
"""Newest answers that are kept."""
EVERY, LEISURE = 1.0, 10.0
"""Seconds between two draws, but at least LEISURE times the CPU seconds of one: a large job is drawn less often."""
SOON = 0.1, 20
"""Seconds between two draws at the start, and their number: nodes appear as they connect."""
BEGINNING = "session"
"""Name of the worker that starts the session; if it fails, the application ends."""


@dataclass(frozen=True, slots=True)
class ScreenOptions:
    """Options of the screen."""

    theme: str = ""
    """Name of a theme; empty: by the colours of the terminal."""
    report_folder: Path = field(default_factory=Path.cwd)
    """Folder for incident reports, captures and flame graphs."""
    bell: bool = True
    """Ring for a new verdict of hung, crashed or at risk."""


class HangtopApp(App[None], inherit_bindings=False):
    """The screen of one session: draws the session's state and never changes it."""

    TITLE = "hangtop"
    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = "app.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings()]

    def __init__(self, session: Session, options: ScreenOptions) -> None:
        self.options = options
        self._plain = bool(os.environ.get("NO_COLOR"))
        super().__init__(driver_class=TerminalDriver, ansi_color=True if self._plain else None)
        self.head = self.session = session
        """``head`` is live or played; ``session`` is shown: the head, or a moment of its past."""
        self.model = ViewModel(session)
        moves = session.can_act or session.until is not None  # files have only one moment
        self.main: MainScreen = MainScreen(self.model, PANELS[0].name if moves else "findings")
        self.results: deque[tuple[float, str, Content]] = deque(maxlen=KEPT)
        """Answers of probes, the newest last: time, title, text."""
        self.never_began: BaseException | None = None
        """The error that kept the session from starting, and ended the application."""
        self._alarm = Alarm()
        self._draw_at = 0.0
        """Monotonic time from which the next draw is due."""
        self.animation_level = "none"
        self.register_theme(OWN)
        self.theme = self._first_theme()
        self.palette: Palette = palette_of(self.current_theme)

    def _first_theme(self) -> str:
        if not self._plain and self.options.theme in self.available_themes:
            return self.options.theme
        return SIXTEEN if self._plain or self.console.color_system == "standard" else OWN.name

    @property
    def switcher(self) -> PanelSwitcher:
        """The panels."""
        return self.main.switcher

    @property
    def panel(self) -> Panel:
        """The panel on top."""
        return self.switcher.panel

    # --- lifecycle ------------------------------------------------------------------------------------------------

    def get_default_screen(self) -> Screen[None]:
        """The screen under all dialogs."""
        return self.main

    def on_mount(self) -> None:
        """Draw the first frame before anything else starts."""
        self.theme_changed_signal.subscribe(self, self._recolour)
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self.run_worker(self._start(), name=BEGINNING, exit_on_error=False)
        self.set_interval(EVERY, self.tick_if_due)
        self.set_interval(SOON[0], self.tick_if_due, repeat=SOON[1])
        gc.freeze()  # these objects stay: the collector need not visit them again
        gc.set_threshold(5_000, 1_000, 100)  # rarely the survivors: 2,048 nodes renew a million objects all the time

    async def _start(self) -> None:
        """Start the session, with its questions on the screen and its past kept."""
        from tui.dialogs.asking import ask_on_screen

        self.head.ask_person = functools.partial(ask_on_screen, self)
        if self.head.options.targets:
            await asyncio.to_thread(importlib.import_module, "asyncssh")  # takes 0.1 s, and runs ldconfig and gcc
        if self.head.live:
            self.head.recordings.keep_past()
        await self.head.start()

    async def on_unmount(self) -> None:
        """Close every connection before the loop ends."""
        await self.head.close()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Show the error of a worker that failed."""
        error = event.worker.error
        if event.state is WorkerState.ERROR and error is not None:
            self._tell_failure(error)
            if event.worker.name == BEGINNING:  # the screen would stay empty
                self.never_began = error
                self.exit()

    def _tell_failure(self, error: BaseException, what: str = "") -> None:
        if isinstance(error, refusals()):
            self.say(f"{what}{error}", "warning")
        else:
            known = isinstance(error, (TransportError, OSError))
            self.say(f"{what}{reason(error)}" if known else f"{what}{type(error).__name__}: {error}", "error")

    # --- drawing -------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Draw the latest state, also under a dialog."""
        self.model.turn()
        if self._alarm.rings(self.head.verdict) and self.options.bell:
            self.bell()
        self.main.draw()

    def tick_if_due(self) -> None:
        """Draw, unless the last draw took too much CPU for another one now."""
        if time.monotonic() >= self._draw_at:
            began = time.thread_time()
            self.tick()
            self._draw_at = time.monotonic() + LEISURE * (time.thread_time() - began)

    def _recolour(self, theme: Theme) -> None:
        self.palette = palette_of(theme)
        self.redraw_all()

    def redraw_all(self) -> None:
        """Redraw the whole screen."""
        for screen in self.screen_stack:
            for lines in screen.query(Lines):
                lines.repaint()
        self.tick()
        self.screen.refresh(layout=True)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's filters, plus one that removes all colours for NO_COLOR.

        Without the filter that converts the sixteen ANSI colours: hangtop's styles use these on purpose.
        """
        kept = [kind for kind in super().get_line_filters() if not isinstance(kind, ANSIToTruecolor)]
        return [*kept, NoColor()] if self._plain else kept

    # --- actions -------------------------------------------------------------------------------------------------

    def get_key_display(self, binding: Binding) -> str:
        """A key's name in the footer."""
        return shown_keys(binding.key)[0]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Tell Textual which keys are valid on this panel."""
        if action != "do":
            return super().check_action(action, parameters)
        return BY_ID[str(parameters[0])].valid(self.panel.can)

    async def action_do(self, name: str) -> None:
        """Run an action by its id, or say why it is refused."""
        action = BY_ID[name]
        if action.asks and not self.session.can_act:
            past = self.head.can_act
            what = "this is a moment of the past, Space returns to now" if past else "this is a recording"
            self.say(f"{action.title}: {what}; no node can be asked", "warning")
        elif action.changes and self.session.options.read_only:
            self.say(f"{action.title}: refused, because --read-only was given", "warning")
        else:
            await self._run(action)

    async def _run(self, action: Action) -> None:
        try:
            done = action.run(self)
            if inspect.isawaitable(done):
                await done
        except (TransportError, OSError) as error:  # such as a full disk or a lost node: the application goes on
            self._tell_failure(error, f"{action.title}: ")
        except ActionRefused as error:
            self._tell_failure(error)
        if len(self.screen_stack) == 1:
            self.main.draw_frame()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Entries of the command palette: every action that is valid here, and the themes."""
        del screen
        for action in ACTIONS:
            if action.valid(self.panel.can) and not action.id.startswith("move."):
                title = f"{action.title} ({' '.join(shown_keys(action.keys))})"
                yield SystemCommand(title, action.help, partial(self._start_action, action.id))
        yield SystemCommand("Theme", "Choose the colours of the screen.", self.search_themes)

    def _start_action(self, name: str) -> None:
        self.run_worker(self.action_do(name), name=name, exit_on_error=False)

    async def go(self, place: Place) -> None:
        """Go to a place, and draw."""
        await self.switcher.go(place)
        self.tick()

    def show_session(self, session: Session) -> None:
        """Show a session: the head, or one that holds a moment of its past."""
        if session is not self.session:
            self.session = session
            self.model.show(session)
            for panel in self.switcher.panels.values():
                panel.renew()
        self.tick()

    # --- messages ----------------------------------------------------------------------------------------------

    def say(self, text: str, severity: SeverityLevel = "information") -> None:
        """Show a short message, without markup."""
        self.notify(harmless(text), severity=severity, markup=False, timeout=4 if severity == "information" else 8)

    def keep(self, title: str, content: Content) -> None:
        """Keep an answer for the list of results."""
        self.results.append((self.session.now(), title, content))
