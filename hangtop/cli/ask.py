"""Who answers a connection's questions in commands without a screen: a person at the terminal, or nobody."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from collectors.fleet.ssh.asking import Asker, Question
from hangtop.cli.running import Status, unattended

HOST_KEY_ANSWERS = {"y": "yes", "yes": "yes", "once": "once"}
"""Anything else is no."""


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
            print(f"hangtop: {question.node}: {what} ({self._why})", file=self._errors or sys.stderr)
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
                return await unattended(lambda: _ask(question))
            except asyncio.CancelledError:
                _give_back(before)
                raise
            finally:
                Status.held -= 1

    def tell(self, text: str) -> None:
        """Say it on standard error."""
        print(f"hangtop: {text}", file=sys.stderr)


TERMINAL = Path("/dev/tty")
"""Asked directly: standard input and output may be a script's."""


def _attributes() -> list[Any] | None:
    """How the terminal is set; None where there is none."""
    import termios

    try:
        with TERMINAL.open("rb", buffering=0) as terminal:
            return termios.tcgetattr(terminal)
    except (OSError, termios.error):
        return None


def _give_back(attributes: list[Any] | None) -> None:
    """Set the terminal as it was, for whoever asked may not come back to do it; what comes next has its own line."""
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
            screen.write("\r\x1b[2K")  # the line that says what is waited for
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
        # No terminal to ask on: the same as nobody there.
        return None
    if question.kind == "host_key":
        return HOST_KEY_ANSWERS.get(answer.lower())
    return answer or None


def asker(*, batch: bool) -> Asker:
    """Whoever can be asked: nobody with ``--batch`` or without a terminal."""
    if batch:
        return NobodyAsker("--batch asks nobody")
    if not sys.stderr.isatty():
        return NobodyAsker("no terminal to ask on; connect once by hand, or use ssh-agent")
    return TerminalAsker()
