"""What a connection may have to ask a person, and who can be asked."""

from __future__ import annotations

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
