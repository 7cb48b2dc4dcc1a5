"""The screen on a session of paper, steered by keys and read as text."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from textual.events import Key
from textual.keys import REPLACED_KEYS, _character_to_key, _get_unicode_name_from_key
from textual.pilot import Pilot

from tests.support.screens import Paper, PaperSession
from tui.app import HangtopApp, ScreenOptions

SIZE = (120, 40)
TURNS = 10_000
"""Of the event loop, after which somebody who never waits is waited for no longer."""


def pressed(key: str) -> Key:
    """What a terminal says of a key, by its name or its character: ``question_mark`` and ``?`` are the same."""
    name = key if key.isalnum() or len(key) > 1 else _character_to_key(key)
    try:
        character: str | None = unicodedata.lookup(_get_unicode_name_from_key(REPLACED_KEYS.get(name, name)))
    except KeyError:
        character = key if len(key) == 1 else None
    return Key(name, character)


async def nothing_left() -> None:
    """Wait until the event loop has nothing to do but to wait: for time, for what is read, for other threads."""
    loop: Any = asyncio.get_running_loop()
    for _ in range(TURNS):
        await asyncio.sleep(0)
        if not loop._ready:
            return


class Screen:
    """One running application."""

    def __init__(self, app: HangtopApp, session: PaperSession, pilot: Pilot[None]) -> None:
        self.app, self.session, self.pilot = app, session, pilot

    async def press(self, *keys: str) -> None:
        """Press keys, and let what each of them set going end."""
        for key in keys:
            self.app.post_message(pressed(key))
            await self.settle()
            at_work = [worker for worker in self.app.workers if worker.name != "session"]
            if at_work:
                await self.app.workers.wait_for_complete(at_work)
                await self.settle()

    async def settle(self) -> None:
        """Let all widgets handle what was set going, lay them out, once more where a scroll bar took room, and paint.

        Pilot's own pause waits until the process has nothing to do: 20 ms at least, and on a busy machine a second.
        """
        for _ in range(3):
            await nothing_left()
            await self.pilot._wait_for_screen()  # who waits for another thread keeps its messages waiting
            await self.app.animator.wait_until_complete()
            self.app.screen._on_timer_update()
        await nothing_left()

    async def draw(self) -> None:
        """Let a tick pass."""
        self.app.tick()
        await self.settle()

    def lines(self) -> list[str]:
        """What is on the screen, line by line."""
        width, height = self.app.size
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip)[:width] for strip in strips[:height]]

    def text(self) -> str:
        """What is on the screen."""
        return "\n".join(self.lines())

    def notices(self) -> list[str]:
        """Messages that were shown."""
        return [notification.message for notification in self.app._notifications]


@asynccontextmanager
async def screen(
    session: PaperSession | None = None, options: ScreenOptions | None = None, size: tuple[int, int] = SIZE
) -> AsyncIterator[Screen]:
    """Run the application without a terminal; messages are shown, so that a fault in them is seen."""
    session = session or Paper().session()
    app = HangtopApp(session, options or ScreenOptions(theme="hangtop"))
    async with app.run_test(size=size, notifications=True) as pilot:
        shown = Screen(app, session, pilot)
        await shown.settle()
        await shown.draw()
        yield shown
