"""Questions to the person, one at a time, and answers that need not be given twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from collectors.fleet.questions import Asker, Question


class Questions:
    """Puts the questions of all connections one after another."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self._turn = asyncio.Lock()

    async def ask(self, question: Question) -> str | None:
        """The answer; None when the person declines or nobody is there."""
        async with self._turn:
            return await self.asker.ask(question)


class Passwords:
    """Passwords that were right, by user, so that 64 nodes with the same one ask once.

    While one connection tries what was just typed in, the others of that user wait to see whether it is right.
    """

    def __init__(self) -> None:
        self._right: dict[str, list[str]] = {}
        self._declined: set[str] = set()
        self._trying: dict[str, asyncio.Lock] = {}

    def attempt(self, user: str) -> PasswordAttempt:
        """Begin one connection's authentication."""
        return PasswordAttempt(user, self._right.setdefault(user, []), self._declined, self._lock(user))

    def ask_again(self) -> None:
        """Forget who declined."""
        self._declined.clear()

    def _lock(self, user: str) -> asyncio.Lock:
        return self._trying.setdefault(user, asyncio.Lock())


class PasswordAttempt:
    """The passwords of one connection: first those that were right elsewhere, then what the person types in."""

    def __init__(self, user: str, right: list[str], declined: set[str], trying: asyncio.Lock) -> None:
        self._user = user
        self._right = right
        self._declined = declined
        self._trying = trying
        self._holds = False
        self._tried: list[str] = []
        self.asked = 0
        """Times that the person was asked on this connection."""

    @property
    def must_wait(self) -> bool:
        """Another connection is trying a password of the same user."""
        return not self._holds and self._trying.locked()

    async def next(self, ask: Callable[[], Awaitable[str | None]]) -> str | None:
        """The next one to send; None when there is none. That it is asked for means that the last one was wrong."""
        if (known := self._untried()) is not None:
            return known
        if not self._holds:
            await self._trying.acquire()
            self._holds = True
            if (known := self._untried()) is not None:
                return known
        if self._user in self._declined:
            return None
        self.asked += 1
        answer = await ask()
        if answer is None:
            self._declined.add(self._user)
            return None
        self._tried.append(answer)
        return answer

    def accepted(self) -> None:
        """The one that was sent last was right."""
        if self._tried and self._tried[-1] not in self._right:
            self._right.append(self._tried[-1])
        self.over()

    def over(self) -> None:
        """Nothing more will be tried on this connection."""
        if self._holds:
            self._holds = False
            self._trying.release()

    def _untried(self) -> str | None:
        for password in self._right:
            if password not in self._tried:
                self._tried.append(password)
                return password
        return None
