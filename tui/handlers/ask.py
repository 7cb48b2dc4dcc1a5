"""How keys run probes: describe the probe, ask, show its progress, keep its answer."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hangtop.session.probes import Probe
    from tui.app import HangtopApp


class ActionRefused(Exception):
    """The action cannot be done; the text says why."""


def asks(make: Callable[[HangtopApp], Probe | Awaitable[Probe]]) -> Callable[[HangtopApp], object]:
    """Make the handler that offers a probe; a refusal becomes a message of the application."""

    async def offered(app: HangtopApp) -> None:
        made = make(app)
        probe = await made if inspect.isawaitable(made) else made
        confirm(app, (probe.title, probe.brief, probe.command, probe.risk), lambda: run(app, probe))

    return lambda app: app.run_worker(offered(app), name="ask", exit_on_error=False)


def confirm(app: HangtopApp, told: tuple[str, str, str, str], go: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run ``go``, after a confirmation if there is a command; ``told`` is title, brief, command and risk."""
    from tui.dialogs.asking import ConfirmDialog

    def take(yes: bool | None) -> None:
        if yes:
            app.run_worker(go(), name=told[0], exit_on_error=False)

    if told[2]:
        app.push_screen(ConfirmDialog(*told), take)
    else:
        take(True)


async def run(app: HangtopApp, probe: Probe) -> None:
    """Run a probe in a dialog that shows its progress, then its answer; keep the answer for later."""
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
        if dialog.running and dialog.is_attached:  # an error: the application shows it
            dialog.dismiss(None)


def refusals() -> tuple[type[BaseException], ...]:
    """Exceptions that carry a reason for the user, and are not faults."""
    from hangtop.session.probes import ProbeRefused

    return ProbeRefused, ActionRefused
