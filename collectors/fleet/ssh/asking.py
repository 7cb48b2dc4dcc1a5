"""Questions that connections ask a person, one at a time, and passwords that a person types once."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import Awaitable, Callable
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
    """Accepted passwords by user and kind of host, so that 64 nodes of one kind ask once.

    The question says for which hosts the password is. No other host is offered it, because a compromised host would
    learn it. While one connection tries a new password, connections to hosts of that kind wait for the result.
    """

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], _UserKind] = {}

    def attempt(self, user: str, host: str) -> PasswordAttempt:
        """The passwords of one connection; ``host`` is the name under which the host's key is known."""
        return PasswordAttempt(self._kinds.setdefault((user, likeness(host)), _UserKind()))

    def ask_again(self) -> None:
        """Ask again where a question was declined."""
        for kind in self._kinds.values():
            kind.declined = False


class _UserKind:
    """Passwords of one user on hosts of one kind."""

    def __init__(self) -> None:
        self.right: list[str] = []
        self.declined = False
        self.trying = asyncio.Lock()


class PasswordAttempt:
    """The passwords of one connection: first accepted ones, then those that the person types."""

    def __init__(self, kind: _UserKind) -> None:
        self._kind = kind
        self._holds = False
        self._tried: list[str] = []
        self.asked = 0
        """Questions asked on this connection."""

    @property
    def must_wait(self) -> bool:
        """True while another connection tries a password of the same user on a host of this kind."""
        return not self._holds and self._kind.trying.locked()

    async def next(self, ask: Callable[[], Awaitable[str | None]]) -> str | None:
        """The next password to send, None for none. A further call means that the last one was rejected."""
        if (known := self._untried()) is not None:
            return known
        if not self._holds:
            await self._kind.trying.acquire()
            self._holds = True
            if (known := self._untried()) is not None:
                return known
        if self._kind.declined:
            return None
        self.asked += 1
        answer = await ask()
        if answer is None:
            self._kind.declined = True
            return None
        self._tried.append(answer)
        return answer

    def accepted(self) -> None:
        """The password that was sent last was accepted."""
        if self._tried and self._tried[-1] not in self._kind.right:
            self._kind.right.append(self._tried[-1])
        self.over()

    def over(self) -> None:
        """This connection tries no further password."""
        if self._holds:
            self._holds = False
            self._kind.trying.release()

    def _untried(self) -> str | None:
        for password in self._kind.right:
            if password not in self._tried:
                self._tried.append(password)
                return password
        return None


def likeness(host: str) -> str:
    """The pattern that hosts of one kind share: ``gpu#.lab.org`` of ``gpu07.lab.org``, ``10.0.0.0/24`` of ``10.0.0.7``.

    In a name, numbers of the first label become ``#``; an address becomes its /24 or /64 network.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        first, dot, domain = host.lower().partition(".")
        return re.sub(r"[0-9]+", "#", first) + dot + domain
    bits = 24 if address.version == 4 else 64
    return str(ipaddress.ip_network((address, bits), strict=False))
