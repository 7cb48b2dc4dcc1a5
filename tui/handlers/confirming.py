"""What several keys do once it is known what they would do: say it, and do it in the background after a yes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tui.host import Host
    from tui.intent import Intent

Work = Coroutine[Any, Any, None]


def confirmed(app: Host, title: str, intent: Intent, why: str, work: Callable[[], Work]) -> None:
    """Show what it does and ask; ``work`` is begun after a yes."""
    from tui.dialogs.asking import ConfirmDialog

    def take(answer: bool | None) -> None:
        if answer:
            app.run_worker(work(), name=title, exit_on_error=False)

    app.push_screen(ConfirmDialog(title, intent, why), take)
