"""Opens the screen: the one module here that knows it, and only when it is called."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from hangtop.cli.common import ScreenChoices
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session


def watch(options: SessionOptions, choices: ScreenChoices, *, record: str | None = None) -> None:
    """Watch the nodes that the options name; what is seen is also written to the file ``record``."""
    from hangtop.session.live import live_session

    session = live_session(options)
    if record is not None:
        session.record(Path(record))
    show(session, choices)


def show(session: Session, choices: ScreenChoices) -> None:
    """Show a session until the user leaves."""
    from collectors.fleet.turns import event_loop
    from tui.app import HangtopApp, ScreenOptions

    app = HangtopApp(
        session,
        ScreenOptions(
            theme=choices.theme,
            ascii=choices.ascii,
            no_color=choices.no_color or bool(os.environ.get("NO_COLOR")),
            keymap=choices.keymap,
            refresh=choices.refresh,
            report_folder=choices.report_folder,
            bell=choices.bell,
        ),
    )
    with asyncio.Runner(loop_factory=event_loop) as runner:
        runner.run(app.run_async())
