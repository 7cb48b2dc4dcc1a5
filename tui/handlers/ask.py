"""How keys run probes: describe the probe, ask, show its progress, keep its answer."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hangtop.session.probes import Probe
    from tui.app import HangtopApp


class ActionRefused(Exception):
    """The action cannot be done; the text says why."""


def asks(make: Callable[[HangtopApp], Probe | Awaitable[Probe]]) -> Callable[[HangtopApp], object]:
    """Make the handler that offers a probe; a refusal becomes a message of the application."""

    async def offered(app: HangtopApp) -> None:
        from tui.dialogs.asking import ConfirmDialog

        made = make(app)
        probe = await made if inspect.isawaitable(made) else made

        def take(yes: bool | None) -> None:
            if yes:
                app.run_worker(run(app, probe), name=probe.title, exit_on_error=False)

        if probe.command:
            app.push_screen(ConfirmDialog(probe.title, probe.brief, probe.command, probe.risk), take)
        else:
            take(True)

    return lambda app: app.run_worker(offered(app), name="ask", exit_on_error=False)


def choose(
    app: HangtopApp, title: str, choices: Sequence[tuple[str, str]], take: Callable[[int], object],
    notes: Sequence[str] = (),
) -> None:  # fmt: skip
    """List choices (title, details), and call ``take`` with the index of the chosen one."""
    from tui.dialogs.asking import ChoiceDialog

    def answered(place: int | None) -> None:
        if place is not None:
            take(place)

    app.push_screen(ChoiceDialog(title, choices, notes), answered)


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
