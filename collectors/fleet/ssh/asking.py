"""Questions of connections to the person, one at a time, and passwords that need not be typed in twice."""

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
    """Somebody who can be asked: a dialog on the screen, a prompt on the terminal, or nobody (``--batch``)."""

    async def ask(self, question: Question) -> str | None:
        """Put the question and wait for the answer; None when the person declines or nobody is there."""

    def tell(self, text: str) -> None:
        """Say what went wrong on this machine without being in the way, such as a key that cannot be used."""


class Questions:
    """Puts the questions of all connections one after another."""

    def __init__(self, asker: Asker, *, batch: bool = False) -> None:
        """With ``batch`` nobody is asked."""
        self.asker = asker
        self.batch = batch
        self._turn = asyncio.Lock()
        self._told: set[str] = set()

    def tell(self, text: str) -> None:
        """Tell the person something, once however many connections come upon it."""
        if text not in self._told:
            self._told.add(text)
            self.asker.tell(text)

    async def ask(self, question: Question) -> str | None:
        """The answer; None when the person declines or nobody is there."""
        if self.batch:
            return None
        async with self._turn:
            return await self.asker.ask(question)


class Passwords:
    """Passwords that were right, by user and host; by consent also for hosts like that one, so that 64 nodes ask once.

    Never for others unasked: a host that is taken over must not be given what opens the rest. While one connection
    tries what was just typed in, the others of its kind wait to see whether it is right.
    """

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], _UserKind] = {}

    def attempt(self, user: str, host: str, port: int = 22) -> PasswordAttempt:
        """Begin one connection's authentication; ``host`` is the name under which the host's key is known."""
        kind = self._kinds.setdefault((user, likeness(host)), _UserKind(likeness(host)))
        return PasswordAttempt((host, port), f"{user}@{host}", kind)

    def ask_again(self) -> None:
        """Forget who declined."""
        for kind in self._kinds.values():
            kind.declined = False
            kind.shared = kind.shared or None


class _UserKind:
    """What is known of one user on hosts that are alike."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.right: dict[tuple[str, int], list[str]] = {}
        self.first = ""
        """``user@host`` of which the first of them was right."""
        self.shared: bool | None = None
        """Whether what is right for one may be offered to all; None before the person was asked."""
        self.declined = False
        self.trying = asyncio.Lock()


Ask = Callable[[], Awaitable[str | None]]
Consent = Callable[[str, str], Awaitable[str | None]]
"""Asked with ``user@host`` of the password and the name of the hosts that are alike."""


class PasswordAttempt:
    """The passwords of one connection: first those that were right before, then what the person types in."""

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
        """Times that the person was asked on this connection."""

    @property
    def must_wait(self) -> bool:
        """Another connection is trying a password of the same user and kind of host."""
        return not self._holds and self._kind.trying.locked()

    async def next(self, ask: Ask, consent: Consent) -> str | None:
        """The next one to send; None when there is none. That it is asked for means that the last one was wrong."""
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
        """The one that was sent last was right."""
        right = self._kind.right.setdefault(self._host, []) if self._tried else []
        if self._tried and self._tried[-1] not in right:
            right.append(self._tried[-1])
            self._kind.first = self._kind.first or self._who
        self.over()

    def over(self) -> None:
        """Nothing more will be tried on this connection."""
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
    """What the hosts of one cluster have in common, ``gpu#.lab.org`` for ``gpu07.lab.org``.

    Of a name the numbers of its first part are left out, of an address what comes after its network: the last of four
    numbers, or the last half.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        first, dot, domain = host.lower().partition(".")
        return re.sub(r"[0-9]+", "#", first) + dot + domain
    bits = 24 if address.version == 4 else 64
    return str(ipaddress.ip_network((address, bits), strict=False))
