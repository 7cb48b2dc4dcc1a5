"""The one way of everything that is asked of nodes or job: say what it does, ask, run it in view, keep the answer."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hangtop.session.probes import Probe
    from tui.app import HangtopApp


class ActionRefused(Exception):
    """It cannot be done; the text says why."""


def asks(make: Callable[[HangtopApp], Probe | Awaitable[Probe]]) -> Callable[[HangtopApp], object]:
    """Make the handler that offers a probe; where it is refused, the application says why."""

    async def offered(app: HangtopApp) -> None:
        made = make(app)
        probe = await made if inspect.isawaitable(made) else made
        confirm(app, (probe.title, probe.brief, probe.command, probe.risk), lambda: run(app, probe))

    return lambda app: app.run_worker(offered(app), name="ask", exit_on_error=False)


def confirm(app: HangtopApp, told: tuple[str, str, str, str], go: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Ask before ``go`` is run, where there is a command to be shown; title, brief, command and risk are ``told``."""
    from tui.dialogs.asking import ConfirmDialog

    def take(yes: bool | None) -> None:
        if yes:
            app.run_worker(go(), name=told[0], exit_on_error=False)

    if told[2]:
        app.push_screen(ConfirmDialog(*told), take)
    else:
        take(True)


async def run(app: HangtopApp, probe: Probe) -> None:
    """Run a probe under a dialog that shows its progress, then its answer, and keep the answer."""
    from hangtop.session.probes import run_probe
    from tui.dialogs.base import RunningDialog
    from tui.texts.findings import answer_text

    task = asyncio.current_task()
    assert task is not None
    dialog = RunningDialog(probe.title, task.cancel)
    await app.push_screen(dialog)
    try:
        result = await run_probe(probe, dialog.say)
        answer = answer_text(result)
        app.keep(result.title, answer)
        dialog.finish(result.title, answer)
    finally:
        if dialog.running and dialog.is_attached:  # it failed: the application says why
            dialog.dismiss(None)


def refusals() -> tuple[type[BaseException], ...]:
    """What is raised where something cannot be asked for: a reason to read, no fault."""
    from hangtop.session.probes import ProbeRefused

    return ProbeRefused, ActionRefused
