"""The one way of everything that is asked of nodes or job: say what it does, ask, run it in view, keep the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tui.order import Answer, Order, Say

if TYPE_CHECKING:
    from hangtop.session.probes import Probe
    from tui.host import Host


def asks(make: Callable[[Host], Awaitable[Order]]) -> Callable[[Host], object]:
    """Make the handler that offers an order; where it is refused, the application says why."""

    async def offered(app: Host) -> None:
        offer(app, await make(app))

    def run(app: Host) -> None:
        app.run_worker(offered(app), name="ask", exit_on_error=False)

    return run


def offer(app: Host, order: Order) -> None:
    """Show what it does and ask; it is begun after a yes, or at once where nothing runs elsewhere."""
    from tui.dialogs.asking import ConfirmDialog

    def take(yes: bool | None) -> None:
        if yes:
            app.run_worker(run_order(app, order), name=order.title, exit_on_error=False)

    if order.command:
        app.push_screen(ConfirmDialog(order), take)
    else:
        take(True)


async def run_order(app: Host, order: Order) -> None:
    """Run it under a dialog that shows its progress, then its answer; stopping cancels the task that runs it."""
    from tui.dialogs.running import RunningDialog

    if order.quiet:
        if (answer := await order.work(app.say)) is not None:
            app.answer(*answer)
        return
    task = asyncio.current_task()
    assert task is not None
    dialog = RunningDialog(order.title, order.stop or task.cancel)
    await app.push_screen(dialog)
    try:
        if (answer := await order.work(dialog.say)) is not None:
            app.keep(*answer)
            dialog.finish(*answer)
    finally:
        if dialog.running and dialog.is_attached:  # it failed: the application says why
            dialog.dismiss(None)


def probe_order(probe: Probe, *, after: Callable[[], object] = lambda: None) -> Order:
    """The order that runs a probe of the session; ``after`` it has run something is noted."""
    from tui.texts.answers import answer_text

    async def work(say: Say) -> Answer:
        result = await probe.run(say)
        after()
        return Answer(result.title, answer_text(result))

    return Order(probe.title, probe.brief, probe.command, work, probe.risk)


def refusals() -> tuple[type[BaseException], ...]:
    """What is raised where something cannot be asked for: a reason to read, no fault."""
    from hangtop.session.probes import ProbeRefused
    from tui.order import Refused

    return ProbeRefused, Refused
