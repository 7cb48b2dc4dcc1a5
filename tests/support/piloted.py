"""The screen on a session of paper, steered by keys and read as text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from tests.support.screens import Paper, PaperSession
from tui.app import HangtopApp, ScreenOptions

SIZE = (120, 40)
ROUNDS = 3
"""Messages from widget to widget that a key may need: to the screen, to a dialog that it opens, to what is in that."""


class Screen:
    """One running application."""

    def __init__(self, app: HangtopApp, session: PaperSession, pilot: Pilot[None]) -> None:
        self.app, self.session, self.pilot = app, session, pilot

    async def press(self, *keys: str) -> None:
        """Press keys, and let what they set going end."""
        await self.pilot.press(*keys)
        await self.pilot.pause()
        await self.app.workers.wait_for_complete([worker for worker in self.app.workers if worker.name != "session"])
        await self.pilot.pause()

    async def press_quickly(self, key: str) -> None:
        """Press a key, and go on as soon as all widgets have handled what it set going.

        :meth:`press` waits until the process has nothing to do, three times; for keys by the dozen that is seconds.
        """
        self.app.simulate_key(key)
        for _ in range(ROUNDS):
            await self.pilot._wait_for_screen()

    async def draw(self) -> None:
        """Let a tick pass."""
        self.app.tick()
        await self.pilot.pause()

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
        await pilot.pause()
        shown = Screen(app, session, pilot)
        await shown.draw()
        yield shown
