"""What the job's own witnesses tell by consent alone: each says what it does, its command and its risk, and asks."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from tui.dialogs.choosing import Choice
from tui.intent import Intent
from tui.looks.text import harmless, wrap
from tui.looks.theme import Tone

if TYPE_CHECKING:
    from hangtop.session.asking.orders import WitnessOrder
    from tui.host import Host

ASKED = (
    Choice("Ask NCCL what each rank launched", "RAS's counts, where nobody asks for them unasked (NCCL 2.24 to 2.28)"),
    Choice("Ask NCCL for its diagnostics", "RAS compares GPUs, driver, ECC, NVLinks and settings (NCCL 2.31)"),
)


async def _status(app: Host) -> None:
    from hangtop.session.asking.ras_status import status

    await _offer(app, lambda: status(app.session))


async def _diagnose(app: Host) -> None:
    from hangtop.session.asking.ras import diagnostics

    await _offer(app, lambda: diagnostics(app.session))


BY_CONSENT: tuple[Callable[[Host], Coroutine[Any, Any, None]], ...] = (_status, _diagnose)
"""What each of :data:`ASKED` does."""


async def _offer(app: Host, make: Callable[[], WitnessOrder]) -> None:
    """Say what it does; ask after a yes, and show what comes."""
    from hangtop.session.asking.orders import WitnessRefused
    from tui.dialogs.asking import WIDTH, ConfirmDialog

    try:
        order = make()
    except WitnessRefused as refused:
        app.say(str(refused), "warning")
        return

    async def work() -> None:
        app.say(f"{order.title} …")
        try:
            lines = await order.carry_out(app.session)
        except WitnessRefused as refused:
            app.say(str(refused), "error")
            return
        app.answer(order.title, [[(harmless(line), Tone.TEXT)] for line in lines])

    def take(yes: bool | None) -> None:
        if yes:
            app.run_worker(work(), name="witness", exit_on_error=False)

    risk = "\n".join(wrap(order.risk(), WIDTH))
    app.push_screen(ConfirmDialog(order.title, Intent(order.brief(), order.command()), risk), take)
