"""What waits for the first frame: a session begins, and its past is kept from then on."""

from __future__ import annotations

import importlib

from hangtop.session.aside import aside
from tui.host import Host

BEGINNING = "session"
"""Name of the worker that begins the session: where it fails nothing can be shown, now or later."""


async def start_session(app: Host) -> None:
    """Begin; questions of the session are asked on the screen."""
    from tui.dialogs.asking import ScreenAsker

    head = app.head
    head.asker = ScreenAsker(app)
    if head.options.targets:
        # 0.1 s of imports, and ldconfig and gcc run in it: not on this thread
        await aside(lambda: importlib.import_module("asyncssh"))
    if head.live and head.player is None:
        await aside(lambda: importlib.import_module("hangtop.session.recording"))
        head.recordings.keep_past()
    await head.start()
