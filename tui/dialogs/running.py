"""Something that takes seconds and can be stopped: its progress line by line, then its answer in the same place."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from textual.app import App

from tui.dialogs.base import TextDialog
from tui.looks.text import harmless
from tui.looks.theme import Tone
from tui.widgets.bar import Bar
from tui.widgets.lines import Content, Piece

Say = Callable[[str], None]
Keep = Callable[[str, Content], None]


class RunningDialog(TextDialog):
    """Shows what is said while something runs, then the answer. Escape calls ``stop`` first, then closes."""

    def __init__(self, title: str, stop: Callable[[], object]) -> None:
        super().__init__(title, [])
        self.running = True
        self._stop = stop
        self._began = time.monotonic()

    def say(self, line: str) -> None:
        """Add a line of progress, with the seconds that have gone by."""
        took = f"{time.monotonic() - self._began:6.1f} s  "
        self.text.content.append([(took, Tone.DIM), (harmless(line), Tone.TEXT)])
        self.text.changed()
        self.text.scroll_to(y=self.text.virtual_size.height, animate=False, force=True)

    def finish(self, title: str, content: Content) -> None:
        """Show the answer in place of the progress."""
        self.running = False
        if self.is_attached:
            self.query_one("#title", Bar).show([(title, Tone.STRONG)])
            self.query_one("#keys", Bar).show(self.keys())
            self.text.show(content)

    def keys(self) -> list[Piece]:
        """What stops it while it runs, reading keys afterwards."""
        if self.running:
            return [("Esc", Tone.ACCENT), (" stop, and clean up on the nodes", Tone.DIM)]
        return super().keys()

    def action_close(self) -> None:
        """Stop it; or close, when it has ended."""
        if self.running:
            self.say("stopping …")
            self._stop()
        else:
            self.dismiss(None)


async def run_shown(
    app: App[Any], title: str, work: Callable[[Say], Awaitable[tuple[str, Content]]], keep: Keep
) -> None:
    """Run ``work`` under a dialog that shows what it says and then its answer: a title and lines, which ``keep`` gets.

    To be awaited in a worker of its own: stopping cancels the task that runs it. ``work`` is to clean up then, and may
    still answer.
    """
    task = asyncio.current_task()
    assert task is not None
    dialog = RunningDialog(title, task.cancel)
    await app.push_screen(dialog)
    try:
        title, content = await work(dialog.say)
        keep(title, content)
        dialog.finish(title, content)
    finally:
        if dialog.running and dialog.is_attached:  # it failed: the application says why
            dialog.dismiss(None)
