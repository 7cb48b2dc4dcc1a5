"""The application: one session, one tick, panels on a stage, every key from the registry of actions."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Awaitable, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.filter import ANSIToTruecolor, LineFilter, NoColor
from textual.screen import Screen
from textual.theme import Theme
from textual.worker import Worker, WorkerState

from collectors.fleet.transport import TransportError
from hangtop.session.aside import aside
from tui.actions import BY_ID, Action, Touch, bindings
from tui.clicks import Clicks
from tui.edges import Edges
from tui.handlers.scrubbing import advance
from tui.looks.ascii import AsciiFilter
from tui.looks.format import reason
from tui.looks.theme import THEMES, Ink, ink_of
from tui.navigation import Stage
from tui.options import ScreenOptions
from tui.panels.registry import PANELS
from tui.results import Results
from tui.running.alarm import Alarm, notification
from tui.running.arrivals import ARRIVALS, Arrivals
from tui.running.due import Due
from tui.running.garbage import REST, Garbage
from tui.running.heap import give_back, share_heap
from tui.running.starting import BEGINNING, start_session
from tui.running.terminal import TerminalDriver
from tui.scene import Scene
from tui.subject import Subject
from tui.widgets.lines import Lines

COST_PERIOD = 2.0
"""Seconds between two looks at hangtop's own CPU and memory."""

__all__ = ["HangtopApp", "ScreenOptions"]


class MainScreen(Screen[None], inherit_bindings=False):
    """The screen under all dialogs; it has no keys of its own (Textual's would take Tab)."""

    BLANK = True


class HangtopApp(Clicks, inherit_bindings=False):
    """The screen of one session. It draws the session's state and never changes it."""

    TITLE = "hangtop"
    ENABLE_COMMAND_PALETTE = False
    SUSPENDED_SCREEN_CLASS = "-screen-suspended"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings()]
    CSS = """
    MainScreen { background: $background; color: $foreground; layout: vertical; }
    #tabs, #footer, #crumbs { height: 1; background: $panel; }
    #crumbs { display: none; background: $background; }
    #crumbs.-on { display: block; }
    ToastRack { margin-bottom: 1; scrollbar-size: 0 0; }
    Toast { padding: 0 1; }
    .-screen-suspended Toast { display: none; }
    """

    def __init__(self, session: Subject, options: ScreenOptions | None = None) -> None:
        self.options = options or ScreenOptions()
        self._plain = self.options.no_color or "NO_COLOR" in os.environ
        super().__init__(driver_class=TerminalDriver, ansi_color=True if self._plain else None)
        self.head = self.session = session
        self.scene = Scene(session, plain=self.options.ascii)
        moves = session.can_act or session.player is not None  # files have but one moment
        self.stage = Stage(self.scene, PANELS[0].name if moves else "findings")
        self.edges = Edges(self)
        self.results = Results()
        self._alarm = Alarm()
        self._garbage = Garbage()
        self._due = Due(self.tick, self.set_timer)
        self._ticked = time.monotonic()
        self._arrivals = Arrivals(self.tick)
        self.never_began: BaseException | None = None
        """Why the session could not begin: the application ends then."""
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
        yield self.edges.banner
        yield self.edges.tabs
        yield self.edges.crumbs
        yield self.stage
        yield self.edges.footer

    def on_mount(self) -> None:
        """Everything but the first frame waits for the first frame."""
        self.theme_changed_signal.subscribe(self, self._recolour)
        self.app_resume_signal.subscribe(self, lambda _: self.redraw_all())  # the shell has written over it
        self.tick()
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self.run_worker(start_session(self), name=BEGINNING, exit_on_error=False)
        self.set_interval(min(10.0, max(0.25, self.options.refresh)), self._due)
        self.set_interval(COST_PERIOD, self.edges.footer.measure)
        self.set_interval(REST, self._garbage.rest)
        self._arriving = self.set_interval(ARRIVALS, self._look_for_arrivals)
        self._garbage.start()
        self._garbage.take_turns()
        share_heap()
        unknown = sorted(set(self.options.keymap) - BY_ID.keys())
        if unknown:
            self.say(f"no such action in [keys]: {', '.join(unknown)}", "warning")

    async def on_unmount(self) -> None:
        """End every connection before the loop ends."""
        self._garbage.stop()
        self.options.before_close()
        await self.head.close()

    def on_resize(self) -> None:
        """Lay out first and last lines anew, once they know their sizes."""
        self.call_after_refresh(self.edges.draw)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A failure in the background is said, not hidden."""
        error = event.worker.error
        if event.state is WorkerState.ERROR and error is not None:
            known = isinstance(error, (TransportError, OSError))
            self.say(reason(error) if known else f"{type(error).__name__}: {error}", "error")
            if event.worker.name == BEGINNING:  # a screen that stays empty for ever would tell of looks to come
                self.never_began = error
                self.exit()

    # --- drawing -------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Draw the latest state, once; under a dialog, too, and its own first line."""
        aside.hold()
        now = time.monotonic()
        passed, self._ticked = now - self._ticked, now
        if self.scene.timeline.playing:
            advance(self, passed)
        self.scene.turn()
        self._announce()
        self.stage.panel.draw()
        self.edges.draw()

    def _look_for_arrivals(self) -> None:
        """Draw nodes as they come; once all have, what their handshakes left goes back to the system."""
        if self._arrivals.look([node.link for node in self.head.state.nodes.values()]):
            self._arriving.stop()
            if self._arrivals.many:
                self.run_worker(give_back(), name="heap", exit_on_error=False)

    def _announce(self) -> None:
        news = self._alarm.news(self.head.verdict)
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

    def is_valid(self, action: Action) -> bool:
        """True when the panel on top can do it."""
        return action.valid(self.panel.can)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Tell Textual which keys are alive here."""
        if action != "do":
            return super().check_action(action, parameters)
        wanted = BY_ID[str(parameters[0])]
        return wanted.everywhere or self.is_valid(wanted)

    async def on_event(self, event: events.Event) -> None:
        """Have long work rest while a key or a click is on its way to the screen."""
        if isinstance(event, events.InputEvent) and not isinstance(event, events.MouseMove):
            aside.hold()
        await super().on_event(event)

    async def action_do(self, name: str) -> None:
        """Run an action by its id: refused where it cannot or must not be, confirmed when it touches the job."""
        action = BY_ID[name]
        self._garbage.pressed()
        if action.asks and not self.session.can_act:
            past = self.head.can_act
            what = "this is a moment of the past, 0 goes to now" if past else "this shows what was recorded"
            self.say(f"{action.title}: {what}; no node can be asked", "warning")
        elif action.touch is not Touch.NOTHING and self.session.options.read_only:
            self.say(f"{action.title}: refused, because --read-only was given", "warning")
        elif action.touch is Touch.JOB and action.intent is not None:
            from tui.dialogs.asking import ConfirmDialog

            def take(answer: bool | None) -> None:
                if answer:
                    self._in_background(action)

            self.push_screen(ConfirmDialog(action.title, action.intent(self)), take)
        else:
            try:
                done = action.run(self)
                if inspect.isawaitable(done):
                    await done
            except (TransportError, OSError) as error:  # a full disk, a node that is gone: no reason to leave the job
                self.say(f"{action.title}: {reason(error)}", "error")
            if len(self.screen_stack) == 1:
                self.edges.draw_frame()

    def _in_background(self, action: Action) -> None:
        done = action.run(self)
        if inspect.isawaitable(done):
            self.run_worker(_finished(done), name=action.id, exit_on_error=False)

    def start(self, action: str) -> None:
        """Run an action, by its id, from where one cannot wait for it."""
        self.run_worker(self.action_do(action), name=action, exit_on_error=False)

    def open_palette(self) -> None:
        """Open the command palette."""
        from tui.palette import ActionsProvider, Palette

        self.push_screen(Palette([ActionsProvider], placeholder="an action, a rank, a finding, a column, a node …"))

    def open_help(self) -> None:
        """Show all keys."""
        from tui.help_text import help_dialog

        self.push_screen(help_dialog(self.options.keymap, self.stage.top, self.panel))


async def _finished(done: Awaitable[object]) -> None:
    await done
