"""Running a command's coroutine so that Ctrl-C and SIGTERM end it cleanly."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def interrupted_cleanly(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end.

    Ctrl-C raises :class:`KeyboardInterrupt` after the coroutine's ``finally`` blocks have run; SIGTERM and SIGHUP,
    which would otherwise skip them, do the same.
    """

    async def guarded() -> T:
        loop, me = asyncio.get_running_loop(), asyncio.current_task()
        assert me is not None
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, me.cancel)
        return await work

    try:
        return asyncio.run(guarded())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
