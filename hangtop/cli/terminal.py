"""A command and its terminal: how Ctrl-C and signals end it, its line of progress, and questions of connections."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, TextIO, TypeVar

from collectors.fleet.ssh.asking import Asker, Question

T = TypeVar("T")

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Signals that ask to end, as Ctrl-C does: what is under way is cleared up first."""


class EndedBySignalError(KeyboardInterrupt):
    """A signal asked to end. The exit code says which, as shells count it."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.exit_code = 128 + number


def when_asked_to_end(end: Callable[[], object], came: list[int]) -> None:
    """Have the running loop call ``end`` when one of :data:`ENDING` comes, and put its number into ``came``."""
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
    """Have Ctrl-C end at once what waits for a person here: a running loop only takes note of the first one."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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


# --- questions of connections: passwords, host keys --------------------------------------------------------------

HOST_KEY_ANSWERS = {"y": "yes", "yes": "yes", "once": "once"}
"""Anything else is no."""
TERMINAL = Path("/dev/tty")
"""Asked directly: standard input and output may be a script's."""


class NobodyAsker:
    """Declines every question, and says once for each node which one it was."""

    def __init__(self, why: str, errors: TextIO | None = None) -> None:
        self._why = why
        self._errors = errors
        self._told: set[tuple[str, str]] = set()

    async def ask(self, question: Question) -> str | None:
        """Decline."""
        said = (question.node, question.kind)
        if said not in self._told:
            self._told.add(said)
            what = "the host key is not known" if question.kind == "host_key" else f"wants an answer: {question.prompt}"
            self.tell(f"{question.node}: {what} ({self._why})")
        return None

    def tell(self, text: str) -> None:
        """Say it on standard error."""
        print(f"hangtop: {text}", file=self._errors or sys.stderr)


class TerminalAsker:
    """Asks on the terminal, one question at a time; what is typed for a secret is not shown."""

    def __init__(self) -> None:
        self._one = asyncio.Lock()

    @property
    def asking(self) -> bool:
        """True while a question waits for its answer."""
        return self._one.locked()

    async def ask(self, question: Question) -> str | None:
        """Put the question; None when it is answered with nothing, or with no."""
        async with self._one:
            before = _attributes()
            Status.held += 1
            try:
                return await _in_daemon_thread(lambda: _ask(question))
            except asyncio.CancelledError:
                _give_back(before)
                raise
            finally:
                Status.held -= 1

    def tell(self, text: str) -> None:
        """Say it on standard error."""
        print(f"hangtop: {text}", file=sys.stderr)


def asker(*, batch: bool) -> Asker:
    """Whoever can be asked: nobody with ``--batch`` or without a terminal."""
    if batch:
        return NobodyAsker("--batch asks nobody")
    if not sys.stderr.isatty():
        return NobodyAsker("no terminal to ask on; connect once by hand, or use ssh-agent")
    return TerminalAsker()


async def _in_daemon_thread(work: Callable[[], T]) -> T:
    """Do what may wait for a person for ever in a thread that nobody waits for once this is cancelled.

    A loop that ends waits for the threads of its own executor: for minutes, with a password that nobody types.
    """
    done: Future[T] = Future()

    def run() -> None:
        with suppress(InvalidStateError, RuntimeError):  # cancelled, or the loop is closed: nobody waits any more
            try:
                done.set_result(work())
            except Exception as error:  # noqa: BLE001 - whoever waits gets it
                done.set_exception(error)

    threading.Thread(target=run, name="hangtop asks", daemon=True).start()
    return await asyncio.wrap_future(done)


def _attributes() -> list[Any] | None:
    """How the terminal is set; None where there is none."""
    import termios

    try:
        with TERMINAL.open("rb", buffering=0) as terminal:
            return termios.tcgetattr(terminal)
    except (OSError, termios.error):
        return None


def _give_back(attributes: list[Any] | None) -> None:
    """Set the terminal as it was: a thread that was left waiting for a password does not."""
    import termios

    if attributes is None:
        return
    with suppress(OSError, termios.error), TERMINAL.open("r+b", buffering=0) as terminal:
        termios.tcsetattr(terminal, termios.TCSANOW, attributes)
        terminal.write(b"\n")


def _ask(question: Question) -> str | None:
    import getpass

    try:
        with TERMINAL.open("w", encoding="utf-8") as screen, TERMINAL.open(encoding="utf-8", errors="replace") as keys:
            screen.write("\r\x1b[2K")  # the line of progress
            if question.detail:
                screen.write(question.detail.rstrip() + "\n")
            prompt = f"{question.node}: {question.prompt} "
            if question.kind == "host_key":
                prompt += "(yes/once/no) "
            elif question.secret:
                screen.flush()
                return getpass.getpass(prompt) or None
            screen.write(prompt)
            screen.flush()
            answer = keys.readline().strip()
    except OSError:
        return None  # no terminal to ask on: the same as nobody there
    if question.kind == "host_key":
        return HOST_KEY_ANSWERS.get(answer.lower())
    return answer or None
