"""Callbacks of asyncssh while it opens one connection: the host key to judge, and keys and passwords to offer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import asyncssh

from collectors.fleet.clean import clean
from collectors.fleet.ssh.asking import Kind, Passwords, Question, Questions
from collectors.fleet.ssh.config import HostSettings
from collectors.fleet.ssh.keys import Identity, KeyRing, Offer
from collectors.fleet.ssh.known_hosts import KnownKeys

PASSWORD_PROMPTS = 3
"""Times that a password is asked for on one connection."""
_PASSWORD = re.compile(r"passw|passcode", re.IGNORECASE)
_PROMPT_LIMIT = 400


class Client(asyncssh.SSHClient):
    """One attempt to connect; afterwards its attributes tell why it failed."""

    def __init__(
        self, settings: HostSettings, node: str, known: KnownKeys, ring: KeyRing, passwords: Passwords,
        questions: Questions, waiting: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.settings = settings
        self.shown: asyncssh.SSHKey | None = None
        """Host key that was not trusted."""
        self.tried: list[str] = []
        """Keys and passwords that were offered, for the error message."""
        self.declined = False
        """True when the person declined a question."""
        self.on_lost: Callable[[Exception | None], None] | None = None
        self.waiting = waiting
        """Called with what the person is asked for, and with an empty text once it is answered."""
        self._node = node
        self._known = known
        self._ring = ring
        self._passwords = passwords
        self._questions = questions
        self._locked: list[Identity] | None = None
        """Encrypted keys that have not been offered; None before the others were."""
        self._keyboard = 0
        self._asked: list[str] = []
        """Passwords that were sent on this connection."""

    def validate_host_public_key(self, _host: str, _addr: str, _port: int, key: asyncssh.SSHKey) -> bool:
        """Judge the host's key; for an unknown key the person is asked after this handshake."""
        if self._known.judge(key) == "known":
            return True
        self.shown = key
        return False

    async def public_key_auth_requested(self) -> list[Offer] | None:
        """The next keys to offer: first all readable keys, then encrypted keys one by one."""
        offers: list[Offer] = []
        if self._locked is None:
            offers, self._locked = await self._ring.offers(self.settings)
        while self._locked and not offers:
            offers = await self._ring.unlock(self._locked.pop(0), self._node, self.waiting)
        self.tried += [f"key {_algorithm(offer)}" for offer in offers]
        return offers or None

    async def password_auth_requested(self) -> str | None:
        """The next password to send."""
        return await self._password(f"Password of {self.settings.user}@{self.settings.host}", "", "password")

    def kbdint_auth_requested(self) -> str | None:
        """Whether to try keyboard-interactive; the server chooses how."""
        self._keyboard += 1
        return "" if self._keyboard <= PASSWORD_PROMPTS else None

    async def kbdint_challenge_received(
        self, name: str, instructions: str, _lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        """Answer the server's prompts; a prompt for a password is answered like password authentication."""
        detail = _shorten(f"{name}\n{instructions}")
        if len(prompts) == 1 and not prompts[0][1] and _PASSWORD.search(prompts[0][0]):
            answer = await self._password(_shorten(prompts[0][0]), detail, "keyboard")
            return None if answer is None else [answer]
        answers = []
        for prompt, echo in prompts:
            given = await self._ask(Question(self._node, "keyboard", _shorten(prompt), detail, secret=not echo))
            if given is None:
                return None
            answers.append(given)
        if prompts:
            self.tried.append("keyboard-interactive")
        return answers

    async def _password(self, prompt: str, detail: str, kind: Kind) -> str | None:
        """The password that was right before, then those that the person types; None for no further one."""
        answer = self._passwords.right.get(self._login)
        if answer is None or answer in self._asked:
            if len(self._asked) >= PASSWORD_PROMPTS:
                return None
            asking = not self._passwords.declined
            answer = await self._ask(Question(self._node, kind, prompt, detail)) if asking else None
        if answer is None:
            self.declined = self._passwords.declined = True
            return None
        self._asked.append(answer)
        self.tried.append("password")
        return answer

    @property
    def _login(self) -> tuple[str, str, int]:
        return self.settings.user, self.settings.known_as, self.settings.port

    async def _ask(self, question: Question) -> str | None:
        self.waiting(f"waits for an answer: {question.prompt}")
        try:
            return await self._questions.ask(question)
        finally:
            self.waiting("")

    def auth_completed(self) -> None:
        """The login succeeded."""
        if self._asked:
            self._passwords.right[self._login] = self._asked[-1]

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection ended."""
        if self.on_lost is not None:
            self.on_lost(exc)


def _shorten(text: str) -> str:
    return clean(text).strip()[:_PROMPT_LIMIT]


def _algorithm(offer: Offer) -> str:
    return (offer[0] if isinstance(offer, tuple) else offer).get_algorithm()
