"""A command's terminal: Ctrl-C and signals, the line of progress, and questions."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, ClassVar, TextIO, TypeVar

from collectors.fleet.sink import HostKeyQuestion

T = TypeVar("T")

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end the command like Ctrl-C: after cleaning up."""


class EndedBySignalError(KeyboardInterrupt):
    """A signal ended the command; the exit code is 128 plus its number, as in shells."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.exit_code = 128 + number


def when_asked_to_end(end: Callable[[], object], came: list[int]) -> None:
    """Make the running loop call ``end`` on a signal of :data:`ENDING`, and append its number to ``came``."""
    loop = asyncio.get_running_loop()

    def take(number: int) -> None:
        came.append(number)
        end()

    for number in ENDING:
        loop.add_signal_handler(number, take, number)


def interrupted_cleanly(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end.

    Ctrl-C raises :class:`KeyboardInterrupt` after the coroutine's ``finally`` blocks; so do SIGTERM and SIGHUP, which
    would otherwise skip them, as :class:`EndedBySignalError`.
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


class Status:
    """One line of progress on standard error, rewritten in place; silent without a terminal."""

    asking: ClassVar[bool] = False
    """True while a question is on the terminal, which the line must not overwrite."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._shown = ""
        self._visible = self._stream.isatty()

    def say(self, text: str) -> None:
        """Replace the line."""
        if self._visible and text != self._shown and not Status.asking:
            width = shutil.get_terminal_size().columns - len("^C") - 1
            self._stream.write("\r\x1b[2K" + text[:width])
            self._stream.flush()
            self._shown = text

    def clear(self) -> None:
        """Remove the line."""
        if self._shown:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()
            self._shown = ""


TERMINAL = Path("/dev/tty")
"""For questions: standard input and output may be a script's."""


async def ask_on_terminal(prompt: str) -> str | None:
    """The line that the user types after a prompt; None without a terminal. Ctrl-C ends it at once."""
    loop, answered = asyncio.get_running_loop(), asyncio.Event()
    Status.asking = True
    try:
        with TERMINAL.open("r+b", buffering=0) as terminal:  # noqa: ASYNC230 - a device
            terminal.write(b"\r\x1b[2K" + prompt.encode())
            loop.add_reader(terminal, answered.set)
            try:
                await answered.wait()
                return terminal.readline().decode(errors="replace").strip()
            finally:
                loop.remove_reader(terminal)
    except OSError:
        return None
    finally:
        Status.asking = False


async def trusts(question: HostKeyQuestion) -> bool | None:
    """Whether the user trusts a host key: only the word yes accepts it. None without a terminal."""
    shown = f"{question.node}: {question.host} has an unknown host key: {question.key}."
    answer = await ask_on_terminal(f"{shown} Trust it? (yes/no) ")
    return None if answer is None else answer.lower() == "yes"
