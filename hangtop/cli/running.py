"""Running a command's coroutine: Ctrl-C and signals end it cleanly; one line on standard error says how far it is."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, TextIO, TypeVar

T = TypeVar("T")

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Signals that ask to end, as Ctrl-C does: what is under way is cleared up first."""


class EndedBySignalError(KeyboardInterrupt):
    """A signal asked to end. The exit code says which, as shells count it."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.exit_code = 128 + number


def when_asked_to_end(end: Callable[[], object], came: list[int]) -> None:
    """Have the running loop call ``end`` when one of these signals comes, and put its number into ``came``."""
    loop = asyncio.get_running_loop()

    def take(number: int) -> None:
        came.append(number)
        end()

    for number in ENDING:
        loop.add_signal_handler(number, take, number)


def interrupted_cleanly(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end.

    Ctrl-C raises :class:`KeyboardInterrupt` after the coroutine's ``finally`` blocks have run; SIGTERM and SIGHUP,
    which would otherwise skip them, raise :class:`EndedBySignalError` then.
    """
    came: list[int] = []

    async def guarded() -> T:
        me = asyncio.current_task()
        assert me is not None
        when_asked_to_end(me.cancel, came)
        return await work

    try:
        return asyncio.run(guarded())
    except asyncio.CancelledError:
        raise (EndedBySignalError(came[0]) if came else KeyboardInterrupt) from None


@contextmanager
def interruptible() -> Iterator[None]:
    """Have Ctrl-C end at once what waits for a person here: a loop that runs takes note of the first one, no more."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


async def unattended(work: Callable[[], T]) -> T:
    """Do what may wait for a person for ever in a thread that nobody waits for, where this is cancelled.

    A loop that ends waits for the threads of its own: for minutes, with a password that nobody types.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: Exception | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, wrong = None, None
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - whoever waits gets it
            wrong = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, wrong)

    threading.Thread(target=run, name="hangtop asks", daemon=True).start()
    return await done


class Status:
    """One line of progress on standard error, rewritten in place; silent where nobody looks."""

    held: ClassVar[int] = 0
    """Questions that stand on the terminal: meanwhile nothing is written over what is typed."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._shown = ""
        self._visible = self._stream.isatty()

    def say(self, text: str) -> None:
        """Show this line in place of the last one."""
        if self._visible and text != self._shown and not Status.held:
            width = shutil.get_terminal_size().columns - len("^C") - 1
            self._stream.write("\r\x1b[2K" + text[:width])
            self._stream.flush()
            self._shown = text

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()
            self._shown = ""
