"""Questions that connections ask a person, one at a time, and the answers that are kept."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal, Protocol

Kind = Literal["host_key", "passphrase", "password", "keyboard"]


@dataclass(frozen=True, slots=True)
class Question:
    """One question of one node.

    ``host_key`` wants ``"yes"`` (accept and remember), ``"once"`` or None; the others want the secret, or None to give
    up. ``prompt`` and ``detail`` came from the far side and have been cleaned of control codes.
    """

    node: str
    kind: Kind
    prompt: str
    detail: str = ""
    secret: bool = True


class Asker(Protocol):
    """Asks a person: by a dialog on the screen or a prompt on the terminal."""

    async def ask(self, question: Question) -> str | None:
        """Ask and wait for the answer; None when the person declines."""

    def tell(self, text: str) -> None:
        """Show a problem of this machine that needs no answer, such as a key that cannot be used."""


class Questions:
    """Asks the questions of all connections one after another."""

    def __init__(self, asker: Asker, *, batch: bool = False) -> None:
        """With ``batch`` no question is asked."""
        self.asker = asker
        self.batch = batch
        self._turn = asyncio.Lock()
        self._told: set[str] = set()

    def tell(self, text: str) -> None:
        """Show a text once, however many connections report it."""
        if text not in self._told:
            self._told.add(text)
            self.asker.tell(text)

    async def ask(self, question: Question) -> str | None:
        """The answer; None when the person declines, or with ``batch``."""
        if self.batch:
            return None
        async with self._turn:
            return await self.asker.ask(question)


class Passwords:
    """Passwords that were accepted, each for its own host: another host that was offered it would learn it."""

    def __init__(self) -> None:
        self.right: dict[tuple[str, str, int], str] = {}
        """By user, host and port."""
        self.declined = False
        """True when the person declined one: no further one is asked for until the person wants it."""
