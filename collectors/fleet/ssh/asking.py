"""Questions that connections ask a person, one at a time, and passwords that a person types once."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, Protocol

Kind = Literal["host_key", "passphrase", "password", "keyboard", "reuse"]


@dataclass(frozen=True, slots=True)
class Question:
    """One question of one node.

    ``host_key`` wants ``"yes"`` (accept and remember), ``"once"`` or None; ``reuse``, whether a password may be offered
    to other hosts, wants ``"yes"``; the others want the secret or None to give up. ``prompt`` and ``detail`` came from
    the far side and have been cleaned of control codes.
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
    """Accepted passwords by user and host; after one consent also offered to similar hosts, so that 64 nodes ask once.

    Without consent a password is offered to no other host, because a compromised host would learn it. While one
    connection tries a new password, connections to similar hosts wait for the result.
    """

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], _UserKind] = {}

    def attempt(self, user: str, host: str, port: int = 22) -> PasswordAttempt:
        """The passwords of one connection; ``host`` is the name under which the host's key is known."""
        kind = self._kinds.setdefault((user, likeness(host)), _UserKind(likeness(host)))
        return PasswordAttempt((host, port), f"{user}@{host}", kind)

    def ask_again(self) -> None:
        """Ask again where a question was declined."""
        for kind in self._kinds.values():
            kind.declined = False
            kind.shared = kind.shared or None


class _UserKind:
    """Passwords of one user on similar hosts."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.right: dict[tuple[str, int], list[str]] = {}
        self.first = ""
        """``user@host`` whose password was accepted first."""
        self.shared: bool | None = None
        """Whether passwords may be offered to all similar hosts; None before the person was asked."""
        self.declined = False
        self.trying = asyncio.Lock()


Ask = Callable[[], Awaitable[str | None]]
Consent = Callable[[str, str], Awaitable[str | None]]
"""Called with ``user@host`` of the password and the name of the similar hosts."""


class PasswordAttempt:
    """The passwords of one connection: first accepted ones, then those that the person types."""

    __slots__ = (
        "_holds",
        "_host",
        "_kind",
        "_tried",
        "_who",
        "asked",
    )

    def __init__(self, host: tuple[str, int], who: str, kind: _UserKind) -> None:
        self._host = host
        self._who = who
        self._kind = kind
        self._holds = False
        self._tried: list[str] = []
        self.asked = 0
        """Questions asked on this connection."""

    @property
    def must_wait(self) -> bool:
        """True while another connection tries a password of the same user on a similar host."""
        return not self._holds and self._kind.trying.locked()

    async def next(self, ask: Ask, consent: Consent) -> str | None:
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
        if self._kind.right and self._kind.shared is None:
            said = await consent(self._kind.first, self._kind.name)
            self._kind.shared = (said or "").strip().lower() in ("y", "yes")
            if (known := self._untried()) is not None:
                return known
        self.asked += 1
        answer = await ask()
        if answer is None:
            self._kind.declined = True
            return None
        self._tried.append(answer)
        return answer

    def accepted(self) -> None:
        """The password that was sent last was accepted."""
        right = self._kind.right.setdefault(self._host, []) if self._tried else []
        if self._tried and self._tried[-1] not in right:
            right.append(self._tried[-1])
            self._kind.first = self._kind.first or self._who
        self.over()

    def over(self) -> None:
        """This connection tries no further password."""
        if self._holds:
            self._holds = False
            self._kind.trying.release()

    def _untried(self) -> str | None:
        hosts = self._kind.right.values() if self._kind.shared else [self._kind.right.get(self._host, [])]
        for password in (one for right in hosts for one in right):
            if password not in self._tried:
                self._tried.append(password)
                return password
        return None


def likeness(host: str) -> str:
    """The pattern that similar hosts share: ``gpu#.lab.org`` for ``gpu07.lab.org``, ``10.0.0.0/24`` for ``10.0.0.7``.

    In a name, numbers of the first label become ``#``; an address becomes its /24 or /64 network.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        first, dot, domain = host.lower().partition(".")
        return re.sub(r"[0-9]+", "#", first) + dot + domain
    bits = 24 if address.version == 4 else 64
    return str(ipaddress.ip_network((address, bits), strict=False))
