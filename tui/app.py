"""The application: one session, one tick, panels on a stage, every key from the registry of actions."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.filter import ANSIToTruecolor, LineFilter, NoColor
from textual.screen import Screen
from textual.theme import Theme
from textual.worker import Worker, WorkerState

from collectors.fleet.transport import TransportError
from hangtop.session.aside import aside
from tui.actions import BY_ID, Action, Touch, bindings, in_footer
from tui.alarm import Alarm, notification
from tui.ascii import AsciiFilter
from tui.garbage import REST, TURN, Garbage
from tui.navigation import Stage
from tui.options import ScreenOptions
from tui.panels.base import Panel, Place
from tui.scene import Scene
from tui.subject import Subject
from tui.text import harmless
from tui.theme import THEMES, Ink, ink_of
from tui.widgets.banner import Banner
from tui.widgets.footer import Footer
from tui.widgets.lines import Lines
from tui.widgets.tabs import Crumbs, Tabs

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

ARRIVALS = 0.1
"""Seconds between two looks at whether a node has come, at the start."""
FEW = 64
"""Nodes of which each is drawn as it comes."""
COST_PERIOD = 2.0
"""Seconds between two looks at hangtop's own CPU and memory."""

__all__ = ["HangtopApp", "ScreenOptions"]


class MainScreen(Screen[None], inherit_bindings=False):
    """The screen under all dialogs; it has no keys of its own (Textual's would take Tab)."""

    BLANK = True


class HangtopApp(App[None], inherit_bindings=False):
    """The screen of one session. It draws the session's state and never changes it."""

    TITLE = "hangtop"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [*bindings()]
    CSS = """
    MainScreen { background: $background; color: $foreground; layout: vertical; }
    #banner, #tabs, #footer, #crumbs { height: 1; background: $panel; }
    #crumbs { display: none; background: $background; }
    #crumbs.-on { display: block; }
    ToastRack { margin-bottom: 1; }
    """

    def __init__(self, session: Subject, options: ScreenOptions | None = None) -> None:
        self.options = options or ScreenOptions()
        self._plain = self.options.no_color or "NO_COLOR" in os.environ
        super().__init__(ansi_color=True if self._plain else None)
        self.session = session
        self.scene = Scene(session)
        self.stage = Stage(self.scene)
        self.banner, self.tabs, self.crumbs, self.bottom = Banner(self.scene), Tabs(), Crumbs(), Footer()
        self._alarm = Alarm()
        self._garbage = Garbage()
        self._came = 0
        """Nodes that have answered, or could not be reached, when it was last drawn."""
        self._last_filters: list[LineFilter] = [NoColor()] if self._plain else []
        if self.options.ascii:
            self._last_filters.append(AsciiFilter())
        self.animation_level = "none"
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = self._first_theme()
        self.ink: Ink = ink_of(self.current_theme, plain=self._plain)
        self.set_keymap({name: keys for name, keys in self.options.keymap.items() if name in BY_ID})

    def _first_theme(self) -> str:
        if self._plain:
            return "hangtop-16"
        if self.options.theme in self.available_themes:
            return self.options.theme
        return "hangtop-16" if self.console.color_system == "standard" else "hangtop"

    # --- its life ------------------------------------------------------------------------------------------------

    def get_default_screen(self) -> Screen[None]:
        """The screen without keys of its own."""
        return MainScreen(id="_default")

    def compose(self) -> ComposeResult:
        """Banner, tabs, where one is, the panel, the keys."""
        yield self.banner
        yield self.tabs
        yield self.crumbs
        yield self.stage
        yield self.bottom

    def on_mount(self) -> None:
        """Everything but the first frame waits for the first frame."""
        self.theme_changed_signal.subscribe(self, self._recolour)
        self.tick()
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self.run_worker(self._start_session(), name="session", exit_on_error=False)
        self.set_interval(min(10.0, max(0.25, self.options.refresh)), self.tick)
        self.set_interval(COST_PERIOD, self.bottom.measure)
        self.set_interval(REST, self._garbage.rest)
        self.set_interval(TURN, self._garbage.turn)
        self._arriving = self.set_interval(ARRIVALS, self._draw_arrivals)
        self._garbage.start()
        unknown = sorted(set(self.options.keymap) - BY_ID.keys())
        if unknown:
            self.say(f"no such action in [keys]: {', '.join(unknown)}", "warning")
        if self.options.theme and self.options.theme not in self.available_themes:
            self.say(f"no theme {self.options.theme}; there are {', '.join(sorted(self.available_themes))}", "warning")

    async def _start_session(self) -> None:
        from tui.dialogs.asking import ScreenAsker

        self.session.asker = ScreenAsker(self)
        if self.session.options.targets:
            # 0.1 s of imports, and ldconfig and gcc run in it: not on this thread
            await aside(lambda: importlib.import_module("asyncssh"))
        await self.session.start()

    async def on_unmount(self) -> None:
        """End every connection before the loop ends."""
        self._garbage.stop()
        await self.session.close()

    def on_resize(self) -> None:
        """Lay out first and last lines anew, once they know their sizes."""
        self.call_after_refresh(self._draw_edges)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A failure in the background is said, not hidden."""
        error = event.worker.error
        if event.state is WorkerState.ERROR and error is not None:
            known = isinstance(error, (TransportError, OSError))
            self.say(str(error) if known else f"{type(error).__name__}: {error}", "error")

    # --- drawing -------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Draw the latest state, once; under a dialog only the alarm goes on."""
        self.scene.turn()
        self._announce()
        if len(self.screen_stack) > 1:
            return
        self.stage.panel.draw()
        self._draw_edges()

    def _draw_edges(self) -> None:
        self.banner.draw()
        self._draw_frame()

    def _draw_arrivals(self) -> None:
        """Draw nodes as they come rather than up to a second later; thousands come in too many parts for that."""
        links = [node.link for node in self.session.state.nodes.values()]
        came = len(links) - links.count("connecting")
        if came != self._came and len(links) <= FEW:
            self._came = came
            self.tick()
        if came and came == len(links):
            self._arriving.stop()

    def _draw_frame(self) -> None:
        verdict = self.session.verdict
        self.tabs.tell(self.stage.top, len(verdict.findings) if verdict else 0)
        self.crumbs.tell(self.panel.scope, self.panel.query_text)
        self.bottom.tell([(action, self.keys_of(action)) for action in in_footer(self.panel.CAN)])

    def _announce(self) -> None:
        news = self._alarm.news(self.session.verdict)
        if news and self.options.bell:
            self.bell()
            if self._driver is not None:
                self._driver.write(notification(news, os.environ))

    def _recolour(self, theme: Theme) -> None:
        self.ink = ink_of(theme, plain=self._plain)
        self.redraw_all()

    def redraw_all(self) -> None:
        """Draw the whole screen anew."""
        for lines in self.screen.query(Lines):
            lines.repaint()
        self.tick()
        self.screen.refresh(layout=True)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's filters, then ours: no colour, no character beyond ASCII.

        Not the one that turns the sixteen colours into others: hangtop's styles use them on purpose or not at all, and
        it looks at every segment of every line.
        """
        kept = [kind for kind in super().get_line_filters() if not isinstance(kind, ANSIToTruecolor)]
        return [*kept, *self._last_filters]

    # --- actions -------------------------------------------------------------------------------------------------

    @property
    def panel(self) -> Panel:
        """The panel on top."""
        return self.stage.panel

    def keys_of(self, action: Action) -> str:
        """The action's present keys."""
        return self.options.keymap.get(action.id, action.keys)

    def is_valid(self, action: Action) -> bool:
        """True when the panel on top can do it."""
        return action.valid(self.panel.CAN)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Tell Textual which keys are alive here."""
        if action != "do":
            return super().check_action(action, parameters)
        return self.is_valid(BY_ID[str(parameters[0])])

    async def go(self, place: Place) -> None:
        """Go in, and draw."""
        await self.stage.go(place)
        self.tick()

    def set_theme(self, name: str) -> None:
        """Change the colours."""
        self.theme = name

    async def on_tabs_chosen(self, event: Tabs.Chosen) -> None:
        """A tab was clicked."""
        await self.action_do(f"panel.{event.panel}")

    async def on_footer_pressed(self, event: Footer.Pressed) -> None:
        """A key of the footer was clicked."""
        await self.action_do(event.action)

    async def action_do(self, name: str) -> None:
        """Run an action by its id: refused when read-only, confirmed when it touches the job."""
        action = BY_ID[name]
        self._garbage.pressed()
        if action.touch is not Touch.NOTHING and self.session.options.read_only:
            self.say(f"{action.title}: refused, because --read-only was given", "warning")
        elif action.touch is Touch.JOB and action.command is not None:
            from tui.dialogs.asking import ConfirmDialog

            def take(answer: bool | None) -> None:
                if answer:
                    self._in_background(action)

            self.push_screen(ConfirmDialog(action.title, action.command(self), action.help), take)
        else:
            done = action.run(self)
            if inspect.isawaitable(done):
                await done
            if len(self.screen_stack) == 1:
                self._draw_frame()

    def _in_background(self, action: Action) -> None:
        done = action.run(self)
        if inspect.isawaitable(done):
            self.run_worker(_finished(done), name=action.id, exit_on_error=False)

    def start(self, name: str) -> None:
        """Run an action from where one cannot wait for it."""
        self.run_worker(self.action_do(name), name=name, exit_on_error=False)

    def start_going(self, place: Place) -> None:
        """Go to a place from where one cannot wait for it."""
        self.run_worker(self.go(place), name="go", exit_on_error=False)

    def say(self, text: str, severity: SeverityLevel = "information") -> None:
        """Show a short message; never read as markup."""
        self.notify(harmless(text), severity=severity, markup=False, timeout=4 if severity == "information" else 8)


async def _finished(done: Awaitable[object]) -> None:
    await done
