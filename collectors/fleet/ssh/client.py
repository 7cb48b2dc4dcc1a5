"""What asyncssh asks of us while it opens one connection: is this host the right one, and who are we."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import asyncssh

from collectors.fleet.clean import clean
from collectors.fleet.ssh.asking import PasswordAttempt, Questions, over
from collectors.fleet.ssh.host_keys import HostKeys, Judgement
from collectors.fleet.ssh.keys import KeyRing
from collectors.fleet.ssh.questions import Kind, Question
from collectors.fleet.ssh.settings import HostSettings
from collectors.fleet.ssh.thin import make_thin

_PASSWORD = re.compile(r"passw|passcode", re.IGNORECASE)
_PROMPT_LIMIT = 400
_REUSE = "Offer the password of {} to all other hosts like {} that want one? (yes/no)"


class Client(asyncssh.SSHClient):
    """One attempt at one connection; afterwards it can say what happened."""

    def __init__(
        self,
        settings: HostSettings,
        node: str,
        host_keys: HostKeys,
        ring: KeyRing,
        passwords: PasswordAttempt,
        questions: Questions,
        waiting: Callable[[str], None],
    ) -> None:
        self.settings = settings
        self.shown: asyncssh.SSHKey | None = None
        """Host key that was not trusted."""
        self.judgement = Judgement("known")
        self._by_certificate: Judgement | None = None
        self._taken: bytes | None = None
        self.tried: list[str] = []
        """What was offered as proof of who we are."""
        self.left_out: Sequence[str] = ()
        """What the ssh_config asks for besides and could not be offered, with the reason."""
        self.declined = False
        """A question stayed without an answer."""
        self.lost: Exception | None = None
        self.on_lost: Callable[[Exception | None], None] | None = None
        self._node = node
        self._host_keys = host_keys
        self._ring = ring
        self._passwords = passwords
        self._questions = questions
        self.waiting = waiting
        """Told what a person is waited for, and nothing when that is over."""
        self._pairs: list[asyncssh.SSHKeyPair] | None = None
        self._keyboard = 0

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        """The host is reached, and nothing has been sent to it."""
        make_thin(conn)

    # --- the host's side ------------------------------------------------------------------------------------------

    def validate_host_public_key(self, _host: str, _addr: str, _port: int, key: asyncssh.SSHKey) -> bool:
        """Judge a key; a person is asked later, not in the middle of a handshake."""
        judged, self._by_certificate = self._by_certificate, None
        if key.public_data == self._taken:  # keys are exchanged anew, with the same host
            return True
        self.judgement = judged or self._host_keys.judge(self.settings, key)
        self.shown = key
        # With checking off, as OpenSSH does then; but no secret is typed into it: see may_tell.
        in_spite = self.judgement.state in ("changed", "revoked") and self.settings.strict == "no"
        in_spite = in_spite and not self.judgement.everywhere
        if in_spite or self.judgement.state == "known":
            self.shown = None
            self._taken = key.public_data
            return True
        return False

    def judge_certificate(self, certificate: asyncssh.SSHCertificate) -> None:
        """Judge a certificate before its key is: what it decides is decided for the key."""
        judged = self._host_keys.judge_certificate(self.settings, certificate)
        if judged.state != "unknown":
            self.judgement = self._by_certificate = judged

    @property
    def may_tell(self) -> bool:
        """Whether passwords may be sent to this host."""
        return self.judgement.state == "known"

    # --- our side -------------------------------------------------------------------------------------------------

    async def public_key_auth_requested(self) -> asyncssh.SSHKeyPair | None:
        """The next key to offer."""
        if self._pairs is None:
            self._pairs = await self._ring.pairs(self.settings, self._node, self.waiting)
            self._pairs.reverse()
        if not self._pairs:
            return None
        pair = self._pairs.pop()
        self.tried.append(f"key {pair.get_algorithm()}")
        return pair

    async def password_auth_requested(self) -> str | None:
        """The next password to send."""
        if not self.may_tell or self._passwords.asked >= self.settings.password_prompts:
            return None
        prompt = f"Password of {self.settings.user}@{self.settings.hostname}"
        return await self._password(prompt, "", "password")

    def kbdint_auth_requested(self) -> str | None:
        """Whether to try keyboard-interactive; the server chooses how."""
        self._keyboard += 1
        return "" if self.may_tell and self._keyboard <= self.settings.password_prompts else None

    async def kbdint_challenge_received(
        self, name: str, instructions: str, _lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        """Answer the server's questions; one that asks for a password is answered like a password."""
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
        if self._passwords.must_wait:
            self.waiting("waits for the password that is being asked for another node")
        answer = await self._passwords.next(
            lambda: self._ask(Question(self._node, kind, prompt, detail)),
            lambda who, alike: self._ask(Question(self._node, "reuse", _REUSE.format(who, alike), secret=False)),
        )
        self.waiting("")
        if answer is not None:
            self.tried.append("password")
        else:
            self.declined = True
        return answer

    async def _ask(self, question: Question) -> str | None:
        if self.settings.batch:
            return None
        self.waiting(f"waits for an answer: {question.prompt}")
        try:
            return await self._questions.ask(question)
        finally:
            self.waiting("")

    # --- what becomes of it ---------------------------------------------------------------------------------------

    def auth_completed(self) -> None:
        """We are in."""
        self._passwords.accepted()
        self._passwords = over()

    def connection_lost(self, exc: Exception | None) -> None:
        """It ended, by whatever cause."""
        self.lost = exc
        self._passwords.over()
        if self.on_lost is not None:
            self.on_lost(exc)


def _shorten(text: str) -> str:
    return clean(text).strip()[:_PROMPT_LIMIT]
